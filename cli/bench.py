"""``bench``: the named workloads, measured on this machine against rivals, answers checked."""

from __future__ import annotations

from typing import Any

import click

from pubsub_cluster.cli.common import emit_json, json_option, note


@click.command()
@click.argument("workload", required=False)
@click.option("--list", "as_list", is_flag=True, help="Name the workloads and the rivals.")
@click.option("--subscriptions", type=click.IntRange(1), help="How many; else the workload's usual number.")
@click.option("--events", type=click.IntRange(1), help="Events per timed pass.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="What all is drawn from.")
@click.option("--passes", type=click.IntRange(1), default=5, show_default=True, help="Turns that count.")
@click.option("--rival", "rivals", multiple=True, help="Only these rivals; repeatable. `none` for none.")
@click.option("--cluster", "with_cluster", is_flag=True, help="Measure a whole cluster through a client too.")
@click.option("--shards", type=click.IntRange(1), default=2, show_default=True, help="Of --cluster.")
@click.option("--replicas", type=click.IntRange(1), default=1, show_default=True, help="Of --cluster.")
@json_option
def bench(
    workload: str | None,
    as_list: bool,
    subscriptions: int | None,
    events: int | None,
    seed: int,
    passes: int,
    rivals: tuple[str, ...],
    with_cluster: bool,
    shards: int,
    replicas: int,
    as_json: bool,
) -> None:
    """Measure matching on a named workload.

    Subscriptions and events are drawn from the seed. The number of matches is asserted in every timed pass,
    and by brute force on the first events. Rivals run in the same process, in turns; their ratio to the
    kernel is the result, an absolute time is orientation.

    \b
    Example:
      pubsub-cluster bench --list
      pubsub-cluster bench W0 --subscriptions 1000000 --json
    """
    from pubsub_cluster.benchmarks.workloads import WORKLOADS

    if as_list or workload is None:
        _list(as_json)
        return
    if workload not in WORKLOADS:
        raise click.BadParameter(f"there is no workload {workload!r}; see `pubsub-cluster bench --list`")
    from pubsub_cluster.benchmarks.rivals import RIVALS
    from pubsub_cluster.benchmarks.runner import ClusterShape, Settings, run_workload

    unknown = set(rivals) - set(RIVALS) - {"none"}
    if unknown:
        raise click.BadParameter(f"there is no rival {', '.join(sorted(unknown))}; see `bench --list`")
    chosen = tuple(rival for rival in rivals if rival != "none") if rivals else tuple(RIVALS)
    shape = ClusterShape(shards, replicas) if with_cluster else None
    settings = Settings(subscriptions, events, seed, passes, chosen, shape)
    report = run_workload(workload, settings, note)
    if as_json:
        emit_json(report)
    else:
        click.echo(_text(report))


def _list(as_json: bool) -> None:
    from pubsub_cluster.benchmarks.workloads import WORKLOADS

    if as_json:
        emit_json(
            [
                {
                    "name": name,
                    "subscriptions": entry.subscriptions,
                    "events": entry.events,
                    "about": entry.about,
                }
                for name, entry in WORKLOADS.items()
            ]
        )
        return
    width = max(map(len, WORKLOADS))
    for name, entry in WORKLOADS.items():
        click.echo(f"{name:<{width}}  {entry.subscriptions:>9,}  {entry.about}")


def _text(report: dict[str, Any]) -> str:
    def time_line(name: str, key: str, more: str = "") -> str:
        return f"  {name:<24} {report[key]:>12.4g} us/event{more}"

    lines = [
        f"{report['workload']}: {report['subscriptions']:,} subscriptions, {report['events']:,} events "
        f"per pass, {report['matches']:,} matches, verified",
        time_line("kernel", "us_per_event", f" ({report['us_per_event_spread']})"),
        time_line("engine from columns", "engine_us_per_event", f" ({report['engine_us_per_event_spread']})"),
        time_line("engine from JSON", "json_us_per_event"),
        time_line("floor", "floor_us_per_event", f"; the kernel is {report['floor_ratio']:.1f} x"),
        f"  {'index':<24} {report['index_bytes_per_subscription']:>12.4g} bytes/subscription, "
        f"built in {report['build_s']:.1f} s",
    ]
    for name, found in report["ratios"].items():
        low, high = report["ratio_spreads"][name]
        lines.append(f"  {name:<24} {found:>12.4g} x the kernel's time ({low:.3g} to {high:.3g})")
    for name, found in report["ratios_at"].items():
        lines.append(f"  {name:<24} {found['ratio']:>12.4g} x, with {found['subscriptions']:,} subscriptions")
    lines += [f"  {name:<24} not run: {reason}" for name, reason in report["skipped"].items()]
    if found := report.get("cluster"):
        lines += [
            f"  cluster {found['shards']} x {found['replicas']}: {found['events_per_second']:,.0f} events/s, "
            f"{found['share_of_kernels']:.0%} of as many kernels' rate",
            f"    single events {found['single_events_per_second']:,.0f}/s; at {found['single_rate']:,}/s "
            f"p99 {found['single_p99_us'] / 1000:.2f} ms",
            f"    {found['bytes_per_subscription']:.0f} bytes/subscription in all",
        ]
    return "\n".join(lines)
