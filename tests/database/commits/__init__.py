"""Tests of database/commits."""
