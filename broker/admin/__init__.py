"""What an operator can ask of the kernel and order, as values."""
