"""Reads data files, and changes nothing."""
