"""Tests of the reference pages: what they say is so."""
