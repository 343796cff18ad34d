"""Tests of cli/history."""
