"""Tests of broker/server/migration."""
