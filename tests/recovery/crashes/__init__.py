"""Tests of recovery/crashes."""
