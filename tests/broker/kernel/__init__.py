"""Tests of broker/kernel."""
