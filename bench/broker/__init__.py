"""Benchmarks of the broker and its server."""
