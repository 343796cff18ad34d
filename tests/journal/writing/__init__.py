"""Tests of journal/writing."""
