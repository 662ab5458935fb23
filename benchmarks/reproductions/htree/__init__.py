"""Experiments and claims of HTREE, whose title is in `pubsub_cluster.algorithms.htree`."""
