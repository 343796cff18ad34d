"""Data files and archives as columns: planned, opened, judged, and made into Arrow batches. No Spark here."""
