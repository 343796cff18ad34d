"""Journals in Spark: the data source, its options, its stream, and a session to run it in."""
