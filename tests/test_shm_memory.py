"""Memory that is given back: what it held is still there when it is next used."""

from __future__ import annotations

from pathlib import Path

import llvmlite.binding
import pytest

from pubsub_cluster.shm.memory import give_back_code, give_back_memory

SMAPS = Path("/proc/self/smaps")


def resident_code_kb(library: str) -> int:
    """Kilobytes of a library's machine code in memory."""
    total, is_code = 0, False
    for line in SMAPS.read_text().splitlines():
        first, *rest = line.split()
        if not first.endswith(":"):
            is_code = rest[0] == "r-xp" and library in line
        elif is_code and first == "Rss:":
            total += int(rest[0])
    return total


@pytest.mark.skipif(not SMAPS.exists(), reason="this system does not tell what is in memory")
def test_code_that_is_given_back_comes_back_when_it_is_used() -> None:
    text = "define i32 @f() {\n  ret i32 1\n}\n"
    llvmlite.binding.parse_assembly(text)
    before = resident_code_kb("libllvmlite")
    give_back_code("libllvmlite")
    assert resident_code_kb("libllvmlite") < before
    assert llvmlite.binding.parse_assembly(text).get_function("f").name == "f"
    give_back_code("no such library")
    give_back_memory()
