"""The simulation: queues."""
