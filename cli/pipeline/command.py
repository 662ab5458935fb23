"""``pipeline``: the group of its commands."""

from __future__ import annotations

import click

from pubsub_cluster.cli.pipeline.build import build
from pubsub_cluster.cli.pipeline.groups import groups
from pubsub_cluster.cli.pipeline.match import match
from pubsub_cluster.cli.pipeline.prepare import prepare
from pubsub_cluster.cli.pipeline.statistics import statistics
from pubsub_cluster.cli.pipeline.stream import stream


@click.group()
def pipeline() -> None:
    """Prepare, count, build and match on Spark.

    Runs on this machine with no cluster of any kind, or wherever `spark-submit` or SPARK_REMOTE says.

    \b
    Example:
      pubsub-cluster pipeline prepare subscriptions rules.ndjson --output prepared
      pubsub-cluster pipeline build prepared/subscriptions --output layout
      pubsub-cluster pipeline match events/ --layout layout --output matches
    """


for command in (prepare, statistics, build, match, stream, groups):
    pipeline.add_command(command)
