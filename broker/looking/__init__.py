"""What an operator can see of a broker: rows made by functions that only look."""
