"""Tests of cli/messages."""
