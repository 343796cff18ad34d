"""Tests of broker/embedded."""
