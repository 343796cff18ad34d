"""Tests of database/door."""
