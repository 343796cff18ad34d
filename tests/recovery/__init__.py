"""Tests of recovery: crashes, damage, and what a start makes of them."""
