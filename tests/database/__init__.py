"""Tests of the message database."""
