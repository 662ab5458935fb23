"""What becomes of the papers' claims, for the documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

from pubsub_cluster.algorithms.registry import MATCHERS
from pubsub_cluster.benchmarks.record import read
from pubsub_cluster.benchmarks.reproductions.htree.claims import CLAIMS as HTREE
from pubsub_cluster.benchmarks.reproductions.lesub.claims import CLAIMS as LESUB
from pubsub_cluster.benchmarks.reproductions.outcome import Claim
from pubsub_cluster.benchmarks.reproductions.riabov.claims import CLAIMS as RIABOV
from pubsub_cluster.benchmarks.reproductions.rr4089.claims import CLAIMS as RR4089
from pubsub_cluster.benchmarks.reproductions.topss.claims import CLAIMS as TOPSS

PAPERS: dict[str, Mapping[str, Claim]] = {
    "RR-4089": RR4089,
    "TOPSS": TOPSS,
    "RIABOV": RIABOV,
    "HTREE": HTREE,
    "LESUB": LESUB,
}
VERDICTS = ("holds", "fails", "not decided")


def claims_of(paper: str) -> str:
    """Return one line per claim of a paper."""
    verdicts = {row["claim"]: row for row in read("claims")}
    lines = [
        "| claim | where | the paper says | holds when | verdict | ours | why |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, claim in sorted(PAPERS[paper].items()):
        row = verdicts.get(
            name, {"verdict": "not decided", "ours": "", "why": "no experiment has decided it"}
        )
        cells = (name, claim.where, claim.says, claim.holds_when, row["verdict"], row["ours"], row["why"])
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def summary() -> str:
    """Return how many claims of each paper hold, and where that was measured."""
    rows = read("claims")
    verdicts = {row["claim"]: row["verdict"] for row in rows}
    lines = ["| paper | claims | hold | fail | not decided |", "|---|---|---|---|---|"]
    total: Counter[str] = Counter()
    for paper, claims in PAPERS.items():
        count = Counter(verdicts.get(name, "not decided") for name in claims)
        total += count
        lines.append(f"| {paper} | {len(claims)} | " + " | ".join(str(count[one]) for one in VERDICTS) + " |")
    lines.append(f"| all | {total.total()} | " + " | ".join(str(total[one]) for one in VERDICTS) + " |")
    small = sum(row["scale"] == "small" for row in rows)
    commits = ", ".join(sorted({row["commit"] for row in rows}))
    machines = ", ".join(sorted({f"{row['cpu']}, {row['cores']} cores" for row in rows}))
    command = "python -m pubsub_cluster.benchmarks.papers --scale paper --keep"
    lines += [
        "",
        f"{len(rows)} verdicts, of which {small} at the scale `small`, commit {commits}, on {machines}. "
        f"Source: `benchmarks/results/claims.csv`, made by `{command}`.",
    ]
    return "\n".join(lines)


def matchers() -> str:
    """Return one line per matcher."""
    lines = ["| name | paper | what it does |", "|---|---|---|"]
    lines += [f"| `{name}` | {one.paper} | {one.about} |" for name, one in MATCHERS.items()]
    return "\n".join(lines)


BLOCKS: dict[str, Callable[[], str]] = {"papers": summary, "matchers": matchers} | {
    f"claims-{paper.lower().replace('-', '')}": partial(claims_of, paper) for paper in PAPERS
}
