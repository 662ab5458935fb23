"""What rules are expected to cost per event, for a dry run: the tuner's model over a sample of log events."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pubsub_cluster.cli.common import error_text, note
from pubsub_cluster.cli.progress import Progress
from pubsub_cluster.cli.render import counted
from pubsub_cluster.language.errors import PubSubError

if TYPE_CHECKING:
    from pubsub_cluster.sigma_rules.rules import Rule
    from pubsub_cluster.tuner.statistics import EventSample

SAMPLE_EVENTS = 16_384
BATCH_EVENTS = 1_024
SEED = 4_089


def expected_costs(rules: Sequence[Rule], sample: EventSample | None) -> list[float | None]:
    """Return the expected cost of each rule in nanoseconds per event; None for one a cluster would refuse.

    Parameters
    ----------
    rules : sequence of Rule
    sample : EventSample, optional
        See `pubsub_cluster.tuner.prices.subscription_costs`.
    """
    from pubsub_cluster.coordinator.registry import Registry
    from pubsub_cluster.language.json_form import expression_to_json
    from pubsub_cluster.language.limits import DEFAULT_LIMITS
    from pubsub_cluster.language.schema import EMPTY_SCHEMA
    from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
    from pubsub_cluster.tuner.prices import subscription_costs

    writer = CatalogueWriter.in_memory(max(len(rules), 1))
    registry = Registry(writer, EMPTY_SCHEMA, DEFAULT_LIMITS)
    places: list[int] = []
    with Progress("Pricing", len(rules), "rule") as bar:
        for place, rule in enumerate(rules):
            try:
                registry.stage_subscribe({"id": str(place), "expr": expression_to_json(rule.expression)})
            except PubSubError:
                continue
            registry.apply(1)  # one by one: the room for what is staged is a generous bound
            places.append(place)
            bar.advance(1)
        found: list[float | None] = [None] * len(rules)
        cost = subscription_costs(CatalogueReader.of(writer), writer.counts(), registry.version, sample)
        for place, each in zip(places, cost.tolist(), strict=True):
            found[place] = each
    return found


def sample_events(sources: Sequence[str], logsources_file: Path | None) -> EventSample:
    """Return an even sample of the events of some log files, as the rules see them.

    Every line has the same chance, however many there are (reservoir sampling), and the same files give the
    same sample. A line that is no event costs itself.
    """
    from pubsub_cluster.language.batch import payload_from_dicts
    from pubsub_cluster.language.decode import decode_payload
    from pubsub_cluster.logs.files import BadLine, parse_line
    from pubsub_cluster.sigma_rules.events import Normaliser
    from pubsub_cluster.sigma_rules.logsources import default_logsources
    from pubsub_cluster.tuner.statistics import BATCHES_HELD_MAX, EventSample

    table = default_logsources()
    if logsources_file is not None:
        table = table.extended(logsources_file)
    normaliser = Normaliser(table.aliases)
    bad_count = 0

    def on_bad(bad: BadLine) -> None:
        note(
            error_text(bad.error, title=f"Error: {bad.file}:{bad.line}" if bad.line else f"Error: {bad.file}")
        )

    events: list[dict[str, Any]] = []
    for line in _picked_lines(sources, on_bad):
        try:
            events.append(normaliser.normalise(parse_line(line) or {}))
        except PubSubError:
            bad_count += 1
    if bad_count:
        note(f"{counted(bad_count, 'line')} of the sample cannot be read.")
    sample = EventSample(max(BATCHES_HELD_MAX * BATCH_EVENTS, SAMPLE_EVENTS))
    for first in range(0, len(events), BATCH_EVENTS):
        payload = payload_from_dicts(events[first : first + BATCH_EVENTS])
        sample.add(decode_payload(payload.header, payload.buffers))
    return sample


def _picked_lines(sources: Sequence[str], on_bad: Any) -> list[bytes]:
    from pubsub_cluster.logs.files import read_blocks, stored_size_bytes

    chance = random.Random(SEED)
    picked: list[bytes] = []
    seen = 0
    with Progress("Sampling", stored_size_bytes(sources), "B") as bar:
        for block in read_blocks(sources, on_bad):
            for line in block.lines:
                if not line.strip():
                    continue
                seen += 1
                if len(picked) < SAMPLE_EVENTS:
                    picked.append(line)
                elif (place := int(chance.random() * seen)) < SAMPLE_EVENTS:
                    picked[place] = line
            bar.advance(round(block.stored_bytes))
    return picked
