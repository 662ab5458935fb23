"""SERVICE: alert rules over log events, all text: service = S and level in (2 of 5) and region != R.

After a public benchmark of rule matchers. 100,000 rules over 3,500 services give 10 matches per event; events
have six text attributes, as JSON about 300 bytes; columns are UTF-8, not dictionary codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pubsub_cluster.benchmarks.workloads import draw
from pubsub_cluster.benchmarks.workloads.rules import Domain, Events, Rules

LEVELS = ("debug", "error", "fatal", "info", "warn")
REGIONS = tuple(f"{area}-{side}-1" for area in ("ap", "eu", "sa", "us") for side in ("east", "west"))
SERVICES, HOSTS, TRACES, MESSAGES = 3_500, 500, 1 << 16, 2_000
WORDS = ("request", "timeout", "upstream", "retry", "cache", "miss", "shard", "leader", "lease", "queue")


@dataclass(frozen=True)
class Service:
    """See the module.

    Attributes
    ----------
    name : str
    subscriptions : int
    seed : int
    """

    name: str = "SERVICE"
    subscriptions: int = 100_000
    seed: int = 1

    @cached_property
    def domains(self) -> tuple[Domain, ...]:
        """The attributes with their texts."""
        trace = draw.words(self.seed, 12, 0, TRACES, 2).tolist()
        text = draw.below(draw.words(self.seed, 13, 0, MESSAGES, 22), len(WORDS)).tolist()
        return (
            Domain("service", texts=tuple(f"svc-{number:04d}" for number in range(SERVICES))),
            Domain("level", texts=LEVELS),
            Domain("region", texts=REGIONS),
            Domain("host", texts=tuple(f"ip-10-0-{number // 250}-{number % 250}" for number in range(HOSTS))),
            Domain("trace", texts=tuple(f"{high:016x}{low:016x}" for high, low in trace)),
            Domain("message", texts=tuple(" ".join(WORDS[word] for word in line) for line in text)),
        )

    def rules(self) -> Rules:
        """Draw the subscriptions."""
        word = draw.words(self.seed, 1, 0, self.subscriptions, 3)
        pairs = [(one, two) for one in range(5) for two in range(one + 1, 5)]
        service = draw.below(word[:, 0], SERVICES)
        pair = draw.below(word[:, 1], len(pairs)) + SERVICES
        region = draw.below(word[:, 2], len(REGIONS)) + SERVICES + len(pairs)
        # Predicates: services, pairs of levels, regions.
        members = [value for two in pairs for value in two] + list(range(len(REGIONS)))
        sizes = [0] * SERVICES + [2] * len(pairs) + [1] * len(REGIONS)
        numbers = np.arange(SERVICES)
        attribute = np.repeat([0, 1, 2], [SERVICES, len(pairs), len(REGIONS)])
        rest = len(pairs) + len(REGIONS)
        top = np.array([len(domain.texts) - 1 for domain in self.domains])
        return Rules(
            self.domains,
            attribute.astype(np.int32),
            np.concatenate((numbers, np.zeros(rest, np.int64))).astype(np.int32),
            np.concatenate((numbers, top[attribute[SERVICES:]])).astype(np.int32),
            attribute == 2,
            np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes))),
            np.array(members, np.int32),
            np.arange(0, 3 * self.subscriptions + 1, 3, dtype=np.int64),
            np.stack((service, pair, region), axis=1).astype(np.int32).reshape(-1),
        )

    def events(self, count: int, first: int = 0) -> Events:
        """Draw events [first, first + count)."""
        bounds = np.array([len(domain.texts) for domain in self.domains], np.int64)
        return Events(self.domains, draw.below(draw.words(self.seed, 3, first, count, len(bounds)), bounds))


def service(subscriptions: int = 100_000, seed: int = 1) -> Service:
    """Return SERVICE."""
    return Service(subscriptions=subscriptions, seed=seed)
