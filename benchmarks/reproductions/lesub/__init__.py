"""Experiments and claims of LESUB, whose title is in `pubsub_cluster.algorithms.lesub`."""
