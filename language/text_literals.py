"""Which JSON lines may hold a text that a predicate on any attribute looks for: a sieve before decoding.

A predicate on any attribute holds only where its literal occurs in some value of the event, so the literal,
or a run of it that JSON writes as it is, occurs in the line. One regular expression over the raw bytes
finds all of them, in time linear in the line. It may let a line pass that no predicate holds on, never the
opposite:

- Of a literal the longest run is taken whose characters need no escape and are no wildcard. Case is
  ignored, by RE2's folding, which takes every character to the same ASCII letter as `values.fold` does.
- JSON may write such a character as ``\\u0041``: a line with one of these escapes passes.
- An integer's text is in the line as it is; a float's need not be, so a literal that could be a part of one
  makes the sieve useless.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import re2

from pubsub_cluster.language.expression import Atom, Operator

SIEVE_MEMORY_BYTES_MAX = 16 << 20
_LITERAL_OPERATORS = frozenset(
    {Operator.EQ, Operator.IN, Operator.PREFIX, Operator.SUFFIX, Operator.CONTAINS, Operator.LIKE}
)
# Printable ASCII that JSON does not escape and that is no wildcard of `like`.
_PLAIN_RUN = re.compile(r"[ !#-)+-.0->@-\[\]-~]+")
_PART_OF_A_FLOAT = re.compile(r"[-+0-9.einfa]*", re.IGNORECASE)
# Escapes of ASCII, and of the two other characters that fold to an ASCII letter.
_ESCAPES = r"\\u00[2-7]|\\u017[fF]|\\u212[aA]"
_ESCAPE_LITERALS = (*(f"\\u00{digit}" for digit in "234567"), "\\u017f", "\\u212a")

LineTest = Callable[[bytes], bool]


def line_sieve(atoms: Iterable[Atom]) -> LineTest | None:
    """Return a test that is true for every JSON line on whose event one of the predicates may hold.

    Parameters
    ----------
    atoms : iterable of Atom
        On any attribute.

    Returns
    -------
    callable of bytes to bool, or None
        None where nothing can be told from the line: a regular expression, or a literal without a plain run.
    """
    needed = _runs(atoms)
    if needed is None:
        return None
    if not needed:
        return lambda line: False
    options = re2.Options()
    options.max_mem = SIEVE_MEMORY_BYTES_MAX
    pattern = "|".join(re2.escape(run) for run in needed)
    search = re2.compile(f"(?i:{pattern})|{_ESCAPES}", options).search
    return lambda line: search(line) is not None


def line_literals(atoms: Iterable[Atom]) -> list[bytes] | None:
    """Return literals of which a line holds one, in some case, if `line_sieve` lets it pass.

    Unless the line has U+017F or U+212A, which fold to ASCII letters.
    In lower case, ASCII. None where `line_sieve` has no test; none of them where it lets nothing pass.
    """
    runs = _runs(atoms)
    if not runs:
        return None if runs is None else []
    return [run.encode() for run in (*runs, *_ESCAPE_LITERALS)]


def _runs(atoms: Iterable[Atom]) -> list[str] | None:
    """Return the plain runs, in lower case, of which one is in every line that counts; None: not known."""
    runs: set[str] = set()
    for atom in atoms:
        if atom.operator not in _LITERAL_OPERATORS:
            return None
        for literal in atom.value if isinstance(atom.value, tuple) else (atom.value,):
            run = _plain_run(str(literal))
            if run is None:
                return None
            runs.add(run.lower())
    # A run that has another one in it adds nothing.
    return sorted(run for run in runs if not any(other != run and other in run for other in runs))


def _plain_run(literal: str) -> str | None:
    """Return the longest run of a literal that JSON writes as it is; None where that says too little."""
    if _PART_OF_A_FLOAT.fullmatch(literal):
        return None
    runs = _PLAIN_RUN.findall(literal)
    return max(runs, key=len) if runs else None
