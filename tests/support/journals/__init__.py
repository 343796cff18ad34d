"""What tests share of journals."""
