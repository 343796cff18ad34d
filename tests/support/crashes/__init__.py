"""What tests share of crashes."""
