"""Commands on a directory: inspect, repair, back up, restore, io-test, estimate."""
