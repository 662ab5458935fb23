"""``python -m pubsub_cluster.cli`` is the `pubsub-cluster` command."""

from pubsub_cluster.cli.main import main

if __name__ == "__main__":
    main()
