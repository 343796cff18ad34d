"""Tests of broker/kernel/topics."""
