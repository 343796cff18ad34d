"""Tests of cli/queue."""
