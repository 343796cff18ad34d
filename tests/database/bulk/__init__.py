"""Tests of database/bulk."""
