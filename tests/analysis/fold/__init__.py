"""Tests of the fold."""
