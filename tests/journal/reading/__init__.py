"""Tests of journal/reading."""
