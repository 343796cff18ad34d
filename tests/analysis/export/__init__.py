"""A Parquet data set that follows journals."""
