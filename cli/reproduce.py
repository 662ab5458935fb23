"""``reproduce``: the papers' experiments, redrawn with our numbers, and what becomes of their claims."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pubsub_cluster.cli.common import emit_json, json_option, note


@click.command()
@click.argument("figures", nargs=-1)
@click.option("--list", "as_list", is_flag=True, help="Name the experiments.")
@click.option("--all", "all_figures", is_flag=True, help="All of them.")
@click.option(
    "--scale",
    type=click.Choice(["small", "paper"]),
    default="small",
    show_default=True,
    help="Sizes: minutes on two cores, or the paper's.",
)
@click.option(
    "--out",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("reproductions"),
    show_default=True,
    help="Where CSV, PNG and verdicts go.",
)
@json_option
def reproduce(
    figures: tuple[str, ...], as_list: bool, all_figures: bool, scale: str, folder: Path, as_json: bool
) -> None:
    """Redraw figures of the papers and decide their claims.

    Each experiment writes a CSV, a PNG, and its verdicts: whether a claim of the paper holds here, by the
    condition that stands beside it. Needs networkx and matplotlib: pip install 'pubsub-cluster[reproduce]'.

    \b
    Example:
      pubsub-cluster reproduce --list
      pubsub-cluster reproduce riabov-6 --scale paper
    """
    try:
        from pubsub_cluster.benchmarks.reproductions.figures import FIGURES
        from pubsub_cluster.benchmarks.reproductions.figures import reproduce as run
    except ModuleNotFoundError as missing:
        raise click.ClickException(
            f"{missing.name} is not installed; pip install 'pubsub-cluster[reproduce]'"
        ) from missing

    if as_list or not (figures or all_figures):
        if as_json:
            emit_json([{"name": name, "about": one.about} for name, one in FIGURES.items()])
            return
        width = max(map(len, FIGURES))
        for name, experiment in FIGURES.items():
            click.echo(f"{name:<{width}}  {experiment.about}")
        return
    unknown = set(figures) - set(FIGURES)
    if unknown:
        raise click.BadParameter(
            f"there is no experiment {', '.join(sorted(unknown))}; see `pubsub-cluster reproduce --list`"
        )
    reports: list[dict[str, Any]] = []
    for name in FIGURES if all_figures else figures:
        verdicts, paths = run(name, "paper" if scale == "paper" else "small", folder, note)
        files = [str(path) for path in paths]
        reports.append({"name": name, "verdicts": [one._asdict() for one in verdicts], "files": files})
        if as_json:
            continue
        for one in verdicts:
            click.echo(f"{one.claim}  {one.verdict}: {one.ours}" + (f" ({one.why})" if one.why else ""))
        click.echo(f"{name}: " + ", ".join(files))
    if as_json:
        emit_json(reports)
