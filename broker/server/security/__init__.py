"""Who a client is, and what the machine's users may read."""
