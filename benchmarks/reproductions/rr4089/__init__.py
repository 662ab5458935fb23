"""Experiments and claims of RR-4089, whose title is in `pubsub_cluster.algorithms.rr4089`."""
