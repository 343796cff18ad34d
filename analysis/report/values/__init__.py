"""What a page is about, as plain values, and a broker's tables reduced to what one page can hold."""
