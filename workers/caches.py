"""How large the caches of a processor are, for what is to stay in them."""

from __future__ import annotations

from pathlib import Path

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
USUAL_SECOND_LEVEL_BYTES = 512 << 10
"""Where the system does not tell, or says that there is none."""
_UNITS = {"K": 1 << 10, "M": 1 << 20}


def second_level_bytes(caches: Path = CACHES) -> int:
    """Return the size of a core's second-level cache.

    Parameters
    ----------
    caches : Path
        Where Linux tells of each cache of a core in a folder.
    """
    for cache in sorted(caches.glob("index*")):
        try:
            level, size = ((cache / name).read_text().strip() for name in ("level", "size"))
            if level == "2":
                return int(size[:-1]) * _UNITS[size[-1]] or USUAL_SECOND_LEVEL_BYTES
        except (OSError, KeyError, ValueError, IndexError):
            continue
    return USUAL_SECOND_LEVEL_BYTES
