"""Every row of the operator table in `docs/language.md` means the same in its three forms."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from pubsub_cluster.language.expression import And, Atom, Expression, Operator, Or
from pubsub_cluster.language.python_form import any_attribute, attr, to_expression
from pubsub_cluster.language.text_form import parse_text

PAGE = Path(__file__).parent.parent / "docs" / "language.md"
NAMES = {"attr": attr, "any_attribute": any_attribute, "And": And, "Or": Or, "math": math}


def cells_of(line: str) -> list[str]:
    """Cells of a table's row, without the backquotes of code."""
    cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    return [cell[2:-2].strip() if cell.startswith("``") else cell.strip("`") for cell in cells]


def rows() -> list[list[str]]:
    text = PAGE.read_text().partition("## Operators")[2].partition("\n## ")[0]
    return [cells_of(line) for line in text.splitlines() if line.startswith("|")][2:]


def atoms(expression: Expression) -> list[Atom]:
    if isinstance(expression, Atom):
        return [expression]
    children = expression.children if isinstance(expression, And | Or) else (expression.child,)
    return [atom for child in children for atom in atoms(child)]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_the_three_forms_of_a_row_are_equal(row: list[str]) -> None:
    _, text, as_json, python = row
    tree = parse_text(text)
    assert to_expression(json.loads(as_json)) == tree
    assert to_expression(eval(python, dict(NAMES))) == tree


def test_every_operator_has_a_row() -> None:
    trees = [parse_text(row[1]) for row in rows()]
    assert {atom.operator for tree in trees for atom in atoms(tree)} == set(Operator)


def test_precedence_is_as_the_page_says() -> None:
    assert parse_text("a = 1 OR NOT b = 2 AND c = 3") == parse_text("a = 1 OR ((NOT b = 2) AND c = 3)")
    assert parse_text("a in ('x') and b Like 'y*'") == parse_text("a IN ('x') AND b LIKE 'y*'")


def test_the_tags_are_read_as_the_page_says() -> None:
    tagged = {"attr": "a", "op": "in", "value": {"$seq": {"from": 0, "count": 3, "step": 2}}}
    assert to_expression(tagged) == parse_text("a IN (0, 2, 4)")
    pieces = {"attr": "a", "op": "=", "value": {"$str": [["ab", 3]]}}
    assert to_expression(pieces) == parse_text('a = "ababab"')


def test_what_comes_from_sql_is_said_as_the_page_says() -> None:
    assert parse_text(r"a = 'it\'s'") == parse_text('a = "it\'s"')
    assert parse_text("NOT EXISTS gate") == parse_text("gate NOT EXISTS")
