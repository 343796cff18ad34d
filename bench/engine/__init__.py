"""Benchmarks of the engine."""
