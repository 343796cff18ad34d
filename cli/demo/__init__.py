"""The demonstrations: flights, chess by mail, long units of work."""
