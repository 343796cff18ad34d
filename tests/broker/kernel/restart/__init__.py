"""Tests of broker/kernel/restart."""
