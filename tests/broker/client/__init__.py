"""Tests of broker/client."""
