"""Tests of broker/kernel/state."""
