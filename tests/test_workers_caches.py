"""The size of the second-level cache, as Linux tells it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pubsub_cluster.workers.caches import USUAL_SECOND_LEVEL_BYTES, second_level_bytes


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([("1", "32K"), ("1", "48K"), ("2", "2048K"), ("3", "300M")], 2 << 20),
        ([("2", "1M")], 1 << 20),
        ([("1", "32K"), ("3", "32768K")], USUAL_SECOND_LEVEL_BYTES),
        ([("2", "0K")], USUAL_SECOND_LEVEL_BYTES),
        ([("2", "much")], USUAL_SECOND_LEVEL_BYTES),
        ([("2", "")], USUAL_SECOND_LEVEL_BYTES),
        ([], USUAL_SECOND_LEVEL_BYTES),
    ],
)
def test_it_is_what_the_system_tells(tmp_path: Path, told: list[tuple[str, str]], expected: int) -> None:
    (tmp_path / "index9").mkdir()  # tells nothing
    for number, (level, size) in enumerate(told):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        (folder / "level").write_text(f"{level}\n")
        (folder / "size").write_text(f"{size}\n")
    assert second_level_bytes(tmp_path) == expected
