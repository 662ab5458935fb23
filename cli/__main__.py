"""The `pubsub-cluster` command, also as ``python -m pubsub_cluster.cli``.

Ctrl-C ends any command at any time with exit code 130 and without a traceback. This module is all that is
imported before that holds; it imports the commands, and they the heavy packages, afterwards.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

EXIT_INTERRUPTED = 130
AGAIN_S = 0.001
_interrupted = False


def _leave(signal_number: int, frame: FrameType | None) -> None:
    """End at once: nothing has been started yet, or everything has been put away."""
    os.write(2, b"Stopped.\n")
    os._exit(EXIT_INTERRUPTED)


def _interrupt(signal_number: int, frame: FrameType | None) -> None:
    """Raise in the command, and remember it: an import may turn the exception into another one."""
    global _interrupted
    _interrupted = True
    raise KeyboardInterrupt


def _interrupt_again(told: sys.UnraisableHookArgs) -> None:
    """Raise once more, a moment later: what is raised in a callback, as imports have, goes no further."""
    if told.exc_type is KeyboardInterrupt and _interrupted:
        signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
    else:
        sys.__unraisablehook__(told)


def main() -> None:
    """Entry point of the console script."""
    signal.signal(signal.SIGINT, _leave)
    from pubsub_cluster.cli.main import run

    sys.unraisablehook = _interrupt_again
    for number in (signal.SIGINT, signal.SIGALRM):
        signal.signal(number, _interrupt)
    try:
        exit_code = run()
    except BaseException:
        if not _interrupted:
            raise
        exit_code = EXIT_INTERRUPTED
        os.write(2, b"Stopped.\n")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGINT, _leave)
    sys.exit(exit_code)


if __name__ == "__main__":
    main()
