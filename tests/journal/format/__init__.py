"""Tests of journal/format."""
