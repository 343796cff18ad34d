"""What tests share of broker."""
