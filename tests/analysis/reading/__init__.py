"""Tests of what reads the files of a journal for the analysis."""
