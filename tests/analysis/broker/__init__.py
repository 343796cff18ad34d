"""Tests of the questions about a broker's journals."""
