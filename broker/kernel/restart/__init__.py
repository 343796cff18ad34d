"""A restart: what the tables say of each unit of work, and its place."""
