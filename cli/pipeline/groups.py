"""``pipeline groups``: groups of subscribers for multicast, from a built catalogue and events."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pubsub_cluster.cli.common import EXIT_ERROR, emit_json, json_option, note
from pubsub_cluster.cli.pipeline.common import cores_option, spark_session
from pubsub_cluster.cli.pipeline.stages import Stages
from pubsub_cluster.cli.render import counted, number, table

if TYPE_CHECKING:
    from pubsub_cluster.pipeline.group_files import RejectedFile
    from pubsub_cluster.tuner.groups import Groups

METHODS = ("forgy", "pairwise", "spanning-tree")
MEASURES = ("total", "mean")
SPACINGS = ("quantile", "equal")
GROUPS_SHOWN_MAX = 20


@click.command()
@click.option("--layout", "layout_dir", required=True, type=click.Path(path_type=Path, exists=True),
              help="Folder that `pipeline build` has written.")  # fmt: skip
@click.option("--events", "event_paths", required=True, multiple=True, metavar="PATH",
              type=click.Path(path_type=Path, exists=True),
              help="Parquet of typical events, a column per attribute; repeatable.")  # fmt: skip
@click.option("--attributes", required=True, metavar="A,B,...",
              help="Attributes whose values divide the events into cells.")  # fmt: skip
@click.option("--groups", "group_count", type=click.IntRange(1), default=100, show_default=True,
              help="Most groups.")  # fmt: skip
@click.option("--output", required=True, type=click.Path(path_type=Path, file_okay=False),
              help="Folder for groups.json and members/; what it has of them is replaced.")  # fmt: skip
@click.option("--cells", type=click.IntRange(1), default=16, show_default=True,
              help="Most cells of each attribute.")  # fmt: skip
@click.option("--spacing", type=click.Choice(SPACINGS), default=SPACINGS[0], show_default=True,
              help="Cells of numbers: equally many events in each, or equal lengths.")  # fmt: skip
@click.option("--kept", "kept_max", type=click.IntRange(1), default=6_000, show_default=True,
              help="Most cells that are grouped; events in others are sent one by one.")  # fmt: skip
@click.option("--method", type=click.Choice(METHODS), default=METHODS[0], show_default=True,
              help="How cells are grouped.")  # fmt: skip
@click.option("--measure", type=click.Choice(MEASURES), default=MEASURES[0], show_default=True,
              help="Waste of all events, or of an event of the group, as in the paper.")  # fmt: skip
@cores_option
@json_option
@click.pass_context
def groups(
    ctx: click.Context,
    layout_dir: Path,
    event_paths: tuple[Path, ...],
    attributes: str,
    group_count: int,
    output: Path,
    cells: int,
    spacing: Any,
    kept_max: int,
    method: str,
    measure: Any,
    cores: int | None,
    as_json: bool,
) -> None:
    """Form groups of subscribers who are interested in the same events.

    The events' values divide their space into cells; cells that interest almost the same owners become a
    group, to which an event in one of them is sent once. The result is a table of groups, the likeliest
    first: members, cells, share of all events, and how many members get an event of the group in vain. OUTPUT
    gets the group of each cell as JSON and the members as Parquet. Files and events that cannot be used are
    left out and told; the exit code is then 1.

    \b
    Example:
      pubsub-cluster pipeline groups --layout layout --events events/ --attributes price,venue --output groups
    """
    with Stages() as stages:
        session = stages.run("starting Spark", lambda: spark_session(cores))
        from pubsub_cluster.pipeline.group_files import job_errors, open_events, write_groups
        from pubsub_cluster.pipeline.groups import find_groups
        from pubsub_cluster.tuner.groups import GroupOptions

        names = [name.strip() for name in attributes.split(",") if name.strip()]
        options = GroupOptions(group_count, kept_max, method, measure)
        facts = {"layout": str(layout_dir.absolute()), "attributes": names, **options._asdict()}
        with job_errors():
            events, rejected = open_events(session, event_paths, names)
            found = find_groups(
                events, layout_dir, names, options, cells=cells, spacing=spacing, tell=stages.say
            )
            try:
                stages.say("writing groups")
                body = write_groups(found, output, facts)
            finally:
                found.release()
    if as_json:
        emit_json({**body, "output": str(output), "rejected_files": [one._asdict() for one in rejected]})
    else:
        _print(found.groups)
    refused = body["refused_events"]
    made = f"{counted(len(found.groups.size), 'group')} of {counted(found.owner_count, 'owner')} in {output}"
    note(f"{made}, {stages.seconds:.1f} s.")
    _tell_rejected(rejected, refused)
    if rejected or refused:
        ctx.exit(EXIT_ERROR)


def _print(found: Groups) -> None:
    order = sorted(range(len(found.size)), key=lambda group: (-found.probability[group], group))
    rows = [
        (
            group,
            int(found.size[group]),
            int(found.cell_count[group]),
            f"{100 * found.probability[group]:.2f} %",
            number(float(found.waste[group])),
        )
        for group in order[:GROUPS_SHOWN_MAX]
    ]
    click.echo(table(("group", "members", "cells", "events", "wasted"), rows))
    if len(order) > GROUPS_SHOWN_MAX:
        click.echo(f"  and {len(order) - GROUPS_SHOWN_MAX:,} more")
    alone = 1.0 - float(found.probability.sum())
    receivers, wasted = number(found.expected_receivers), number(found.expected_waste)
    click.echo(
        f"  Of all events {100 * alone:.2f} % are in no group. On average an event reaches {receivers} "
        f"members through a group, {wasted} of them in vain."
    )


def _tell_rejected(rejected: list[RejectedFile], refused: int) -> None:
    for one in rejected:
        rows = "" if one.rows is None else f", {counted(one.rows, 'row')}"
        note(f"Rejected: {one.file}{rows}: {one.reason}")
    if refused:
        note(f"Rejected: {counted(refused, 'event')} that the catalogue's schema refuses")
