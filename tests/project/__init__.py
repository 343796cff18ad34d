"""Tests of the project itself: names, packaging, dependencies."""
