"""Tests of broker/kernel/units."""
