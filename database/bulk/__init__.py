"""Whole stores at once, for a broker's start, unloading and loading."""
