"""Tables reduced to what one page can hold."""
