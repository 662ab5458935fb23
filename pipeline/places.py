"""Paths that mean the same to everybody in a job.

A path is given by whoever starts a job, and read by the JVM and by Python workers, each in a working
directory of its own: with Spark Connect they are not even children of the process that gave it.
"""

from __future__ import annotations

import re
from pathlib import Path

_WITH_SCHEME = re.compile(r"[A-Za-z][\w+.-]*:/")


def absolute(path: str | Path) -> str:
    """Return a local path as an absolute one; one with a scheme, as ``s3a://bucket/key``, as it is."""
    text = str(path)
    return text if _WITH_SCHEME.match(text) else str(Path(text).absolute())
