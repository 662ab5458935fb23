"""pubsub-cluster: content-based publish/subscribe matching on one host."""
