"""Runs commands of the pipeline in one session of Spark Connect: ``SPARK_REMOTE`` says where.

Reads a JSON list of commands, each a list of arguments; writes one of exit codes and outputs.
"""

from __future__ import annotations

import json
import sys

from click.testing import CliRunner

from pubsub_cluster.cli.pipeline.command import pipeline
from pubsub_cluster.pipeline.session import get_session


def main() -> None:
    """Run what standard input says."""
    done = [CliRunner().invoke(pipeline, arguments) for arguments in json.load(sys.stdin)]
    told = [[one.exit_code, one.stdout, repr(one.exception or "")] for one in done]
    json.dump({"session": type(get_session()).__module__, "commands": told}, sys.stdout)


if __name__ == "__main__":
    main()
