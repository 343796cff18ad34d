"""Stores: the message database, and SQLite."""
