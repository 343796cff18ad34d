"""Tests of the data source and of its session."""
