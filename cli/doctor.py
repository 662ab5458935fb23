"""``doctor``: what this machine lacks for a cluster, said before anything is started."""

from __future__ import annotations

from pathlib import Path

import click

from pubsub_cluster.cli.common import EXIT_ERROR, data_option, emit_json, json_option, resolve_data_dir


@click.command()
@data_option
@json_option
def doctor(data_dir: Path | None, as_json: bool) -> None:
    """Check what this machine lacks.

    Looks at shared memory, CPUs, pinning, packages, directories and Java. Each line is ok, warning or
    missing, with the remedy. The exit code is 1 only when a cluster cannot start.

    \b
    Example:
      pubsub-cluster doctor
      pubsub-cluster doctor --json | jq '.findings[] | select(.state != "ok")'
    """
    from pubsub_cluster.cli.doctor_checks import OK, can_start, examine

    findings = examine(resolve_data_dir(data_dir))
    startable = can_start(findings)
    if as_json:
        emit_json({"can_start": startable, "findings": [finding.to_dict() for finding in findings]})
    else:
        for finding in findings:
            optional = "" if finding.required or finding.state == OK else " (optional)"
            click.echo(f"  {finding.state:<8} {finding.name:<15} {finding.detail}{optional}")
            if finding.remedy:
                click.echo(f"  {'':<8} {'':<15} -> {finding.remedy}")
        verdict = "A cluster can start here." if startable else "A cluster cannot start here yet."
        click.echo(f"\n{verdict}")
    if not startable:
        raise SystemExit(EXIT_ERROR)
