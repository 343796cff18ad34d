"""Tests of the programs that a reader starts: they do what they say."""
