"""Experiments and claims of RIABOV, whose title is in `pubsub_cluster.algorithms.riabov`."""
