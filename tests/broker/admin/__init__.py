"""Tests of broker/admin."""
