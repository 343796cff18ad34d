"""What tests share of disks."""
