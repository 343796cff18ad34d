"""Tests of the pages about the broker: what they say is so."""
