"""Rules and logs that are never committed: they lie beside the repository; without them tests are skipped."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pubsub_cluster.sigma_rules.rules import RuleSet

SHARED = Path(os.environ.get("PUBSUB_CLUSTER_SHARED", Path(__file__).parent.parent.parent / "shared"))
SIGMA_RULES = SHARED / "data" / "sigma" / "sigma-rules.zip"
WINDOWS_EVENTS = SHARED / "data" / "windows-events"

needs_rules = pytest.mark.skipif(not SIGMA_RULES.exists(), reason=f"{SIGMA_RULES} is not there")
needs_events = pytest.mark.skipif(not WINDOWS_EVENTS.exists(), reason=f"{WINDOWS_EVENTS} is not there")


@cache
def sigma_rule_set() -> RuleSet:
    """Return all rules of the archive, read once; tests that want them are of the xdist group `sigma`."""
    from pubsub_cluster.sigma_rules.rules import load_rules

    return load_rules([SIGMA_RULES])


def event_lines() -> Iterator[tuple[str, int, bytes]]:
    """Give file, line number and line of every event, blank lines counted and left out."""
    for path in sorted(WINDOWS_EVENTS.glob("*.zip")):
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if member.is_dir() or member.filename.startswith("__MACOSX"):
                    continue
                with archive.open(member) as lines:
                    for number, line in enumerate(lines, start=1):
                        if line.strip():
                            yield Path(member.filename).name, number, line
