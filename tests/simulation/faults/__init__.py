"""The simulation: faults."""
