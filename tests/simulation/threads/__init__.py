"""The simulation: threads."""
