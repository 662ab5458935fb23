"""The README's Python code runs and prints what its comments say."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


@pytest.mark.cluster
@pytest.mark.parametrize("code", BLOCKS, ids=lambda code: next(line for line in code.splitlines() if line))
def test_the_code_prints_what_it_says(code: str) -> None:
    expected = re.findall(r"# (.*)$", code, re.MULTILINE)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, str(README), "exec"), {})
    assert expected
    assert output.getvalue().splitlines() == expected
    assert len(code.splitlines()) <= 25


def test_there_are_a_client_an_engine_and_columns() -> None:
    assert ["client" in code for code in BLOCKS] == [True, False, False]
    assert "np.ma" in BLOCKS[2]
