"""``tune``: how the catalogue is laid out, and a new layout on demand."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from pubsub_cluster.cli.common import at_the_cluster, cluster_options, emit_json, json_option
from pubsub_cluster.cli.tune_statistics import import_statistics, statistics_in_words
from pubsub_cluster.cli.tune_tree import tree_in_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubsub_cluster.client import Client

HISTORY_SHOWN = 8
WAIT_S_MAX = 300.0
POLL_S = 0.1
UNITS = {
    "_us_per_task": " us",
    "_ms": " ms",
    "seconds": " s",
    "_cost_per_event": " ns",
    "_cost_of_slots": " ns",
}
WORDS = {
    "pending": "generation to come",
    "in_use": "batches under way in generation",
    "base_rows": "subscriptions in the layout",
    "delta_rows": "subscriptions not in it yet",
    "kernel_us_per_task": "time per task in the layout",
    "delta_us_per_task": "time per task outside it",
    "sampled_events": "events looked at",
    "statistics": "tables are chosen by",
    "constants": "nanoseconds per step, measured here",
    "delivery": "nanoseconds per delivery",
    "partitions_per_shard": "parts of the layout by shard",
    "reason": "built because",
    "seconds": "built within",
    "version": "version of the catalogue",
    "largest_cluster": "subscriptions in the largest cluster",
    "programs": "stored as Boolean programs",
    "expected_cost_per_event": "expected cost per event",
    "expected_cost_of_slots": "of it in slots",
    "observed_cost_per_event": "observed cost per event",
    "observed_cost_of_slots": "of it in slots, observed",
    "observed_events": "events observed",
    "table_count": "hash tables",
    "size_bytes": "size",
    "build_ms": "time to build",
    "build_cpu_ms": "of it on a processor",
    "write_ms": "time to write",
    "tables_chosen_anew": "tables chosen anew because",
    "taken_over": "share taken over as it was",
    "tree_choice": "a tree in place of tables",
    "tree_expected": "of it expected",
    "tree_observed": "of it observed",
}
SWITCH = {"off": "0", "on": "1"}
TABLES_SHOWN = 24
TABLE_COLUMNS = {
    "key": "key",
    "form": "form",
    "clauses": "clauses",
    "clusters": "clusters",
    "expected_cost": "expected ns",
    "observed_cost": "observed ns",
    "observed_probes": "probes",
    "observed_places": "clusters met",
    "observed_candidates": "candidates",
}
HISTORY_COLUMNS = {
    "generation": "generation",
    "reason": "built because",
    "subscriptions": "subscriptions",
    "clusters": "clusters",
    "seconds": "within",
    "size_bytes": "size",
    "error": "error",
}


DECISION_COLUMNS = ("generation", "decision", "table", "moved", "because")
FIGURES_APART = ("kind", "attributes", "moved")


@click.group()
def tune() -> None:
    """Show the layout, or build a new one.

    A layout is one immutable, complete index of the subscriptions; its number is its generation. New
    layouts are built aside and swapped in between two batches.

    \b
    Example:
      pubsub-cluster tune show
      pubsub-cluster tune now
    """


@tune.command()
@cluster_options
@json_option
def show(connect: Callable[[], Client], as_json: bool) -> None:
    """Show the current generation and what is not in it yet.

    \b
    Example:
      pubsub-cluster tune show --json
    """
    with connect() as client:
        found = client.tune_show()
    if as_json:
        emit_json(found)
    else:
        click.echo(page(found))


@tune.command()
@click.option("--wait/--no-wait", default=True, help="Wait for the new generation [default: wait].")
@cluster_options
@json_option
def now(connect: Callable[[], Client], wait: bool, as_json: bool) -> None:
    """Have a new generation built for the current subscriptions and events.

    Waits until it answers and says what it holds.

    \b
    Example:
      pubsub-cluster tune now
      pubsub-cluster tune now --no-wait
    """
    with connect() as client, at_the_cluster("build"):
        asked = client.tune_now()
        built = await_generation(client, int(asked["generation"])) if wait else None
    if as_json:
        emit_json(asked if built is None else {**asked, "generation": built["generation"], "built": built})
    elif built is None:
        click.echo(f"Asked for a new generation; {asked['generation']} answers until it is there.")
    else:
        click.echo(sentence(built))


@tune.command("set", context_settings={"ignore_unknown_options": True})  # a negative number is a value
@click.argument("name")
@click.argument("value")
@cluster_options
@json_option
def set_value(connect: Callable[[], Client], name: str, value: str, as_json: bool) -> None:
    """Change a setting while the cluster works; it is kept in the data directory and holds after a restart.

    VALUE is a number, or `default`: what the cluster was started with; bm_max, b_min, rp_min,
    multicast_threshold and tree then follow from measured costs (`auto` says the same).

    \b
    bm_max             checks per event of a cluster, from which on its subscriptions may move
    b_min              subscriptions below which a table is given up
    rp_min             subscriptions that a new table must be able to take over
    retune_interval_s  least seconds between two generations for better statistics alone
    self_check_rows    subscriptions that an event a second is checked against (0: none)
    multicast_threshold  share of a group, interested, from which on it gets an event
    multicast_groups   most groups of listeners (0: none)
    tree               `on`: conjunctions of ranges are matched by a tree; `off`: by tables

    \b
    Example:
      pubsub-cluster tune set bm_max 5000
      pubsub-cluster tune set bm_max default
    """
    try:
        number = None if value in ("default", "auto") else float(SWITCH.get(value, value))
    except ValueError:
        words = "`on`, `off` or `default`" if name == "tree" else "a number, or `default`"
        raise click.BadParameter(f"{value!r} is not {words}.", param_hint="VALUE") from None
    with connect() as client:
        show_settings(client.tune_set(name, number), as_json)


@tune.command()
@cluster_options
@json_option
def freeze(connect: Callable[[], Client], as_json: bool) -> None:
    """Leave the tables as they are: generations are built with them until `tune thaw`, after a restart too.

    New subscriptions go to the tables that there are. Of an attribute that is looked up by cell the number of
    slices stays, while where they begin follows its constants. Before the first layout, that one's tables are
    kept.

    \b
    Example:
      pubsub-cluster tune freeze
    """
    with connect() as client:
        show_settings(client.tune_freeze(), as_json)


@tune.command()
@cluster_options
@json_option
def thaw(connect: Callable[[], Client], as_json: bool) -> None:
    """Let the tables follow subscriptions and events again.

    \b
    Example:
      pubsub-cluster tune thaw
    """
    with connect() as client:
        show_settings(client.tune_freeze(False), as_json)


def show_settings(settings: dict[str, Any], as_json: bool) -> None:
    """Print what may be set, as it is."""
    from pubsub_cluster.cli.render import fields

    if as_json:
        emit_json(settings)
    else:
        click.echo(fields(settings_in_words(settings)))


def settings_in_words(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with a word to each number: whether it was set, or is the default."""
    was_set = settings.get("set", [])
    words: dict[str, Any] = {}
    for name, value in settings.items():
        if name in was_set:
            told = f"{value:g}" if name != "tree" else "on" if value else "off"
            words[name] = f"{told} (set)"
        elif name != "set":
            words[name] = value if name == "frozen" else f"{value} (default)"
    return words


tune.add_command(import_statistics)


@tune.command("log")
@cluster_options
@json_option
def show_log(connect: Callable[[], Client], as_json: bool) -> None:
    """Show what the tuner decided about tables, and the figures that led to it.

    Of each generation that is remembered the last decisions, oldest first.

    \b
    Example:
      pubsub-cluster tune log --json
    """
    with connect() as client:
        history = client.tune_show().get("history", [])
    decisions = [
        {"generation": record["generation"], **decision}
        for record in history
        for decision in record.get("decisions", [])
    ]
    if as_json:
        emit_json(decisions)
    else:
        click.echo(decision_page(decisions))


def decision_page(decisions: list[dict[str, Any]]) -> str:
    """Return decisions as a table, or a sentence where there are none."""
    from pubsub_cluster.cli.render import number, table, terminal_width

    if not decisions:
        return "No decision yet: tables are as they were chosen when the layout was built."
    rows = []
    for decision in decisions:
        apart = {"generation", *FIGURES_APART}
        figures = [
            f"{name.replace('_', ' ')} {number(value)}"
            for name, value in decision.items()
            if name not in apart
        ]
        name = ", ".join(decision["attributes"])
        rows.append([decision["generation"], decision["kind"], name, decision["moved"], ", ".join(figures)])
    return table(list(DECISION_COLUMNS), rows, "  ", terminal_width())


def await_generation(client: Client, before: int) -> dict[str, Any]:
    """Wait for a generation after `before`; return what the tuner says of it.

    Raises
    ------
    ClusterError
        It cannot be built, or did not come within `WAIT_S_MAX`.
    """
    from pubsub_cluster.language.errors import ClusterError, error_from_dict

    until = time.monotonic() + WAIT_S_MAX
    while True:
        found = client.tune_show()
        history = {int(record.get("generation", 0)): record for record in found.get("history", [])}
        current = int(found["generation"])
        if current > before:
            return history.get(current) or {"generation": current}
        failed = [record for number, record in history.items() if number > before and "error" in record]
        goes_on = f"Generation {current} goes on answering; `pubsub-cluster tune show` says more."
        if failed:
            error = error_from_dict(failed[-1]["error"])
            raise ClusterError(
                f"the new generation could not be built: {error.condition}",
                seen=error.seen,
                limit=error.limit,
                remedy=f"{error.remedy or ''} {goes_on}".strip(),
            )
        if time.monotonic() > until:
            raise ClusterError(
                "the new generation did not come in time", limit=f"{WAIT_S_MAX:.0f} s", remedy=goes_on
            )
        time.sleep(POLL_S)


def sentence(built: dict[str, Any]) -> str:
    """Return what was built as a sentence."""
    from pubsub_cluster.cli.render import counted, size

    text = f"Generation {built['generation']} answers"
    if "subscriptions" in built:
        text += f": {counted(built['subscriptions'], 'subscription')}"
        text += f" in {counted(built['clusters'], 'cluster')}" if "clusters" in built else ""
        text += f", {size(built['size_bytes'])}" if "size_bytes" in built else ""
    return text + (f", built in {built['seconds']:.2g} s." if "seconds" in built else ".")


def page(found: dict[str, Any]) -> str:
    """Return what the tuner says as a page in plain words; facts that are not known here keep their names."""
    from pubsub_cluster.cli.render import fields, table, terminal_width

    found = dict(found)
    layout = dict(found.pop("layout", None) or {})
    settings = found.pop("settings", {})
    if "statistics" in found:
        found["statistics"] = statistics_in_words(found["statistics"])
    layout.pop("decisions", None)  # `tune log` has them
    layout |= tree_in_words(layout)
    tables = layout.pop("tables", [])
    history = found.pop("history", [])[-HISTORY_SHOWN:]
    parts = [fields(_in_words(found))]
    if settings:
        words = settings_in_words(settings)
        parts.append(f"  settings; `tune set` changes them\n{fields(words, '    ', are_words=False)}")
    if layout:
        layout.pop("generation", None)
        parts.append(f"  the layout\n{fields(_in_words(layout), '    ')}")
    if tables:
        names = [name for name in TABLE_COLUMNS if name == "key" or any(name in found for found in tables)]
        rows = [[_table_cell(name, found) for name in names] for found in tables[:TABLES_SHOWN]]
        title = "  its hash tables, the dearest first; per event"
        if len(tables) > TABLES_SHOWN:
            title += f" ({TABLES_SHOWN} of {len(tables)}; --json has them all)"
        headers = [TABLE_COLUMNS[name] for name in names]
        parts.append(f"{title}\n{table(headers, rows, '    ', terminal_width())}")
    if history:
        names = [name for name in HISTORY_COLUMNS if any(name in record for record in history)]
        rows = [[_cell(name, record.get(name)) for name in names] for record in history]
        headers = [HISTORY_COLUMNS[name] for name in names]
        parts.append(f"  generations so far\n{table(headers, rows, '    ', terminal_width())}")
    return "\n\n".join(parts)


def _table_cell(name: str, found: dict[str, Any]) -> Any:
    """Return a cell of the page of tables; a key is its attributes, with the number of slices of some."""
    if name != "key":
        return found.get(name)
    parts = zip(found["attributes"], found["slices"], strict=True)
    return ", ".join(f"{attribute}/{slices}" if slices else attribute for attribute, slices in parts)


def _in_words(facts: dict[str, Any]) -> dict[str, Any]:
    return {WORDS.get(name, name): _cell(name, value) for name, value in facts.items()}


def _cell(name: str, value: Any) -> Any:
    """Return a value with its unit."""
    from pubsub_cluster.cli.render import number, size

    if isinstance(value, dict):
        return ", ".join(f"{key}: {number(item)}" for key, item in value.items()) or "none"
    if value is None or isinstance(value, str):
        return "none" if name == "pending" and value is None else value
    if name.endswith("_bytes"):
        return size(value)
    unit = next((unit for ending, unit in UNITS.items() if name.endswith(ending)), "")
    return f"{number(value)}{unit}" if unit else value
