"""``pipeline``: raw data to layouts and matches, on Spark."""
