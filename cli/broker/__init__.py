"""Commands of a broker: its server, what it knows, what it is told."""
