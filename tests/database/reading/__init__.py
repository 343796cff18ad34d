"""Tests of database/reading."""
