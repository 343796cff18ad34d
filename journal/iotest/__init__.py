"""`oms io-test`: how fast a directory's device makes bytes durable."""
