"""Tests of cli/store."""
