"""The simulation: broker."""
