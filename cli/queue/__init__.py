"""Commands on a queue that several processes use: serve."""
