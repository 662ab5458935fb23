"""The data pipeline on Spark: raw tables to events and subscriptions, statistics, layouts, and matching.

Functions take and give DataFrames; the session is the caller's. Nothing here is needed to run a cluster, and
nothing but this folder imports pyspark.
"""
