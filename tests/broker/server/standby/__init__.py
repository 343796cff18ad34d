"""Tests of broker/server/standby."""
