"""The simulation: engine."""
