"""``demo``: the demonstrations."""

from __future__ import annotations

from pathlib import Path

import click

from pubsub_cluster.cli.common import EXIT_ERROR, emit_json, json_option, note


@click.group()
def demo() -> None:
    """Show what a cluster does, on real data.

    \b
    Example:
      pubsub-cluster demo flights
    """


@demo.command()
@click.option(
    "--flights", "flight_count", type=click.IntRange(1), help="Flights to publish [default: all 336,776]."
)
@click.option("--alerts", "alert_count", type=click.IntRange(1), default=200_000, show_default=True,
              help="Alerts to subscribe.")  # fmt: skip
@click.option(
    "--shards", type=click.IntRange(1, 64), default=2, show_default=True, help="Shards, one worker each."
)
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Of the alerts and of the samples checked."
)
@click.option("--output", "output_dir", type=click.Path(path_type=Path, file_okay=False),
              default="demo-output", show_default=True, help="Folder of the figure.")  # fmt: skip
@click.option("--spark/--no-spark", default=True, show_default=True,
              help="Take events and alerts from the pipeline, where Spark can run.")  # fmt: skip
@click.option("--keep", is_flag=True, help="Keep the cluster's data directory, to start it again.")
@json_option
def flights(
    flight_count: int | None,
    alert_count: int,
    shards: int,
    seed: int,
    output_dir: Path,
    spark: bool,
    keep: bool,
    as_json: bool,
) -> None:
    """Match the flights of 2013 from New York against 200,000 alerts.

    Starts a cluster, loads alerts drawn from the real distributions, streams the flights through it while the
    tuner swaps layouts, draws a figure, checks samples against the naive matcher and stops the cluster. The
    exit code is 1 when a checked list was wrong.

    \b
    Example:
      pubsub-cluster demo flights
      pubsub-cluster demo flights --flights 20000 --alerts 50000 --json
    """
    from pubsub_cluster.cli.demo.run import DemoOptions, run_demo
    from pubsub_cluster.cli.demo.screen import Screen

    options = DemoOptions(flight_count, alert_count, shards, seed, output_dir, keep, spark)
    outcome = run_demo(options, Screen(note if as_json else click.echo))
    if as_json:
        emit_json(outcome.to_dict())
    if outcome.mismatches:
        raise SystemExit(EXIT_ERROR)
