"""What tests share of servers."""
