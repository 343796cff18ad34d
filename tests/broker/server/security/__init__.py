"""Tests of broker/server/security."""
