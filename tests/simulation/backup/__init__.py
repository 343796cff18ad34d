"""The simulation: backup."""
