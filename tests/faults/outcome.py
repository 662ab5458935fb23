"""What a run that kills has done and found."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

BREACHES_SHOWN = 20


@dataclass
class Outcome:
    """What a run has done and found.

    Attributes
    ----------
    name : str
        Of the run.
    seed : int
    kinds : sequence of str
        Of processes that are killed, in the order in which they are told.
    counts_shown : sequence of str, optional
        None: all.
    seconds : float
    kills, named, counts : Counter
        Kills by kind, kills by named instant, everything else by its name.
    breaches : list of str
    restart_s : list of float
        From a coordinator's death to the next one's readiness.
    """

    name: str
    seed: int
    kinds: Sequence[str]
    counts_shown: Sequence[str] | None = None
    seconds: float = 0.0
    kills: Counter[str] = field(default_factory=Counter)
    named: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    breaches: list[str] = field(default_factory=list)
    restart_s: list[float] = field(default_factory=list)

    def line(self) -> str:
        """Return the one line of counts."""
        kills = ", ".join(f"{self.kills[kind]} {kind}s" for kind in self.kinds)
        shown = sorted(self.counts) if self.counts_shown is None else self.counts_shown
        counts = ", ".join(f"{self.counts[name]:,} {name}" for name in shown)
        return (
            f"{self.name}: {self.seconds:.0f} s, seed {self.seed}; killed {kills} ({self.named.total()} at "
            f"{len(self.named)} named instants); {counts}; {len(self.breaches)} breaches"
        )

    def status(self) -> int:
        """Say what was broken, if anything; return the exit status."""
        for breach in self.breaches[:BREACHES_SHOWN]:
            print(f"  {breach}", file=sys.stderr)
        return 1 if self.breaches else 0
