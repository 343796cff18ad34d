"""Tests of the report and of its page."""
