"""Documents name files that exist and link to pages that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PACKAGES = "language|shm|workers|tuner|coordinator|client|sigma_rules|logs|pipeline|cli|pubsub_cluster"
FOLDERS = f"{PACKAGES}|algorithms|tests|docs|benchmarks|examples"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text()
    named = re.findall(rf"`((?:{FOLDERS}|\.ci)/[\w./-]*)`", text)
    missing = [name for name in named if not (ROOT / name).exists()]
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    missing += [link for link in links if link and not (page.parent / link).exists()]
    assert not missing


def test_decisions_are_numbered_listed_and_have_their_four_parts() -> None:
    pages = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    index = (ROOT / "docs" / "adr" / "README.md").read_text()
    for page in pages:
        text = page.read_text()
        assert f"]({page.name})" in index
        assert text.startswith(f"# {page.name[:4]} ")
        parts = re.findall(r"^(Status|## \w+)", text, re.MULTILINE)
        assert parts == ["Status", "## Context", "## Decision", "## Consequences"], page.name
