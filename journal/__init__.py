"""Bytes on disk: what is in a data file, and how it gets there durably."""
