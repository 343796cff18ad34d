"""Tests of broker/kernel/tables."""
