"""Tests of broker/server."""
