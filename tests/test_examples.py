"""The programs in examples/ run as they are, and do what they say."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pubsub_cluster import Cluster
from pubsub_cluster.language.paths import client_endpoint

pytestmark = pytest.mark.cluster
EXAMPLES = Path(__file__).parent.parent / "examples"


def output_of(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_two_subscribers_and_a_publisher() -> None:
    text = output_of(sys.executable, str(EXAMPLES / "stock.py"))
    published = [int(found) for found in re.findall(r"published, (\d+) match", text)]
    ann, bob = (re.findall(rf"^{owner} hears of (.+)$", text, re.MULTILINE) for owner in ("ann", "bob"))
    assert len(published) == 40
    assert len(ann) + len(bob) == sum(published) and ann and bob
    assert all("'ACME'" in event for event in ann)


def test_a_client_in_another_language() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    with Cluster() as cluster:
        path = client_endpoint(cluster.data_dir).removeprefix("ipc://")
        first, second = output_of(node, str(EXAMPLES / "client.mjs"), path).splitlines()
        assert first == "matches: 1"
        assert second.startswith('nora hears of {"name":"ACME","price":85.5} [')
        with cluster.client() as client:
            assert [one.expression for one in client.subscriptions()] == ["name = 'ACME' AND price < 90"]
