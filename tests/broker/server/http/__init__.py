"""Tests of broker/server/http."""
