"""Compact columns, for what waits in large numbers."""
