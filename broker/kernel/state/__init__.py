"""What the kernel knows."""
