"""Tests of journal/iotest."""
