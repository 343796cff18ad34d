"""Tests of database/cleanup."""
