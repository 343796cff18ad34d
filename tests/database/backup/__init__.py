"""Tests of database/backup."""
