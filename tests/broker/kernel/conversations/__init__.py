"""Tests of broker/kernel/conversations."""
