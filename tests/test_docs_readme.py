"""The README's client code runs and prints what its comments say."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


@pytest.mark.cluster
def test_the_client_code_prints_what_it_says() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    expected = re.findall(r"# (.*)$", code, re.MULTILINE)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, str(README), "exec"), {})
    assert output.getvalue().splitlines() == expected
    assert len(code.splitlines()) <= 25
