"""A lake: a Parquet data set that follows journals, file by file."""
