"""Memory that is given back: what it held is still there when it is next used."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path

import llvmlite.binding
import numpy as np
import pytest

from pubsub_cluster.shm.memory import (
    FORGOTTEN_BYTES,
    forget_pages,
    give_back_code,
    give_back_memory,
    untouched_zeros,
)
from pubsub_cluster.shm.segment import Segment, current_owner

SMAPS = Path("/proc/self/smaps")
LARGE_PAGES_KNOWN = Path("/sys/kernel/mm/transparent_hugepage")


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


THREAD_WORKS = """
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from pubsub_cluster.shm.memory import give_back_memory, use_one_heap

def anonymous_kb():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))

def work():
    bytearray(30 << 20)  # from now on the C library maps nothing smaller by itself, nor trims less
    blocks = [bytearray(60_000) for _ in range(500)]
    return anonymous_kb()

use_one_heap()
before = anonymous_kb()
with ThreadPoolExecutor(1) as thread:
    at_work = thread.submit(work).result()
give_back_memory()
print(at_work - before, anonymous_kb() - before)
"""


@pytest.mark.skipif(not SMAPS.exists(), reason="this system does not tell what is in memory")
def test_what_a_thread_has_freed_goes_back_whole() -> None:
    command = [sys.executable, "-c", THREAD_WORKS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    at_work_kb, left_kb = map(int, done.stdout.split())
    assert at_work_kb > 25_000 and left_kb < 3_000


LARGE_PAGES = """
from pathlib import Path
import numpy as np
from pubsub_cluster.shm.memory import give_back_memory

def asks_for_large_pages():
    is_heap = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if not line.split()[0].endswith(":"):
            is_heap = line.endswith("[heap]")
        elif is_heap and line.startswith("VmFlags:") and "hg" in line.split():
            return True
    return False

bytearray(30 << 20)  # from now on large arrays are in the heap
array = np.ones(20 << 20, np.uint8)
stays = np.ones(3 << 20, np.uint8)  # behind it: the heap cannot end before
before = asks_for_large_pages()
del array
give_back_memory()
print(int(before), int(asks_for_large_pages()))
"""


@pytest.mark.skipif(not LARGE_PAGES_KNOWN.exists(), reason="this system has no large pages")
def test_no_large_page_comes_to_where_an_array_was() -> None:
    command = [sys.executable, "-c", LARGE_PAGES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["1", "0"]


def resident_kb(kind: str) -> int:
    """Kilobytes of this process in memory: ``RssAnon`` or ``RssShmem``."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(kind))


def test_zeros_take_memory_where_they_are_touched() -> None:
    before = resident_kb("RssAnon")
    zeros = untouched_zeros(4 << 20, np.int64)
    assert zeros.shape == (4 << 20,) and zeros.dtype == np.int64 and zeros.flags.writeable
    zeros[1_000] = 7
    assert resident_kb("RssAnon") - before < 2_000
    assert zeros[1_000] == 7 and not zeros[-1_000:].any()
    assert untouched_zeros(0, np.int64).shape == (0,)


def test_forgotten_pages_come_back_as_they_were() -> None:
    slices = 3
    made = Segment.create("scratch", 1, slices * FORGOTTEN_BYTES, current_owner(uuid.uuid4().hex[:8]))
    try:
        made.array(np.uint8, 64, 1_000)[:] = 5
        made.close()
        mapped = Segment.attach(made.name)
        view = mapped.array(np.uint8, 64, slices * FORGOTTEN_BYTES - 64)
        mapped.close()
        assert view.sum() == 5_000
        before = resident_kb("RssShmem")
        part = view[1_000_000:][::2]  # whatever view of it
        left = [resident_kb("RssShmem") for _ in forget_pages(part)]
        assert len(left) == slices and left == sorted(left, reverse=True)
        assert before - left[-1] >= slices * FORGOTTEN_BYTES // 1024 - 64
        assert view.sum() == 5_000
    finally:
        made.unlink()
    assert list(forget_pages(np.zeros(4))) == [], "of the heap nothing is forgotten"
