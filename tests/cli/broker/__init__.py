"""Tests of cli/broker."""
