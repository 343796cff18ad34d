"""What a broker's journal tells: its records as rows, and the questions that are asked of them."""
