"""Backups: made while the database runs, followed, checked, restored."""
