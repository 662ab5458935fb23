"""Experiments and claims of TOPSS, whose title is in `pubsub_cluster.algorithms.topss`."""
