"""The demonstrations of the `pubsub-cluster` command; each one is an ordinary client of a real cluster."""
