"""Conjunctions of predicates that were spelt before: from bytes of JSON to numbers, without making a tree.

Most subscriptions are conjunctions of a few plain predicates, and of these only some thousand differ. A
vocabulary remembers what each predicate became by the very bytes that spell it:

    {"and":[{"attr":"a0","op":"=","value":30},{"attr":"a1","op":"<","value":14}]}
             ------------------------------    ------------------------------      two spellings

The text is cut at ``},{`` and the pieces are looked up. A cut in the wrong place does no harm: a piece is in
the vocabulary only if it was read, in braces, as one predicate, and pieces that were make up exactly the
conjunction of these predicates. Whatever else there is (other connectives, repeats, constants that need a
tag, predicates that can never hold, all that is wrong) is left to `pubsub_cluster.language.compile`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from pubsub_cluster.language.canonical import canonical_literal
from pubsub_cluster.language.errors import PubSubError
from pubsub_cluster.language.expression import Atom
from pubsub_cluster.language.json_form import expression_from_json
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.predicate import NormalForm, Predicate
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema

SPELLINGS_MAX = 65_536
SPELLING_SIZE_BYTES_MAX = 256
UNNUMBERED: Final = -1
# As encoders write it: without blanks, and with them as Python's own does.
_STYLES: Final = ((b'{"and":[{', b"},{"), (b'{"and": [{', b"}, {"))
_END: Final = b"}]}"


class Vocabulary:
    """Predicates by number, in order of their first use.

    Attributes
    ----------
    predicates : list of Predicate
        Distinct.
    """

    __slots__ = ("_literals", "_numberer", "by_spelling", "number", "predicates")

    def __init__(self) -> None:
        self.predicates: list[Predicate] = []
        self.number: dict[Predicate, int] = {}
        self.by_spelling: dict[bytes, int] = {}
        self._literals: list[int] = []
        self._numberer: object = None

    def literals(self, numberer: object) -> list[int]:
        """Return the numbers that `numberer` has given the predicates; `UNNUMBERED` where it has none yet.

        The list is the numberer's to fill in; it is kept for the last one who asked.
        """
        if numberer is not self._numberer:
            self._literals, self._numberer = [], numberer
        missing = len(self.predicates) - len(self._literals)
        if missing:
            self._literals += [UNNUMBERED] * missing
        return self._literals

    def forget_literals(self) -> None:
        """Forget the numbers: their giver has taken some back."""
        self._numberer = None


class Conjunction(msgspec.Struct, frozen=True, gc=False):
    """A normal form of one clause whose literals are all positive, by numbers of a vocabulary.

    Attributes
    ----------
    vocabulary : Vocabulary
    numbers : list of int
        Of its predicates, distinct, in order of first use; at least one.
    """

    vocabulary: Vocabulary
    numbers: list[int]

    def normal_form(self) -> NormalForm:
        """Return the same as every other expression is given."""
        predicates = tuple([self.vocabulary.predicates[number] for number in self.numbers])
        return NormalForm(predicates, (tuple(range(0, 2 * len(predicates), 2)),))


class Conjunctions:
    """Reads conjunctions under one schema and its limits; not for several threads.

    Parameters
    ----------
    schema : Schema
    limits : Limits
    """

    def __init__(self, schema: Schema = EMPTY_SCHEMA, limits: Limits = DEFAULT_LIMITS) -> None:
        self._schema = schema
        self._limits = limits
        self._vocabulary = Vocabulary()
        # A node, a list's member included, takes more than a byte.
        self._size_bytes_max = limits.nodes_per_subscription_max if limits.nesting_depth_max >= 1 else 0

    def read(self, data: bytes) -> Conjunction | None:
        """Return what an expression means if it is a conjunction of known kind; None: find out the long way.

        Parameters
        ----------
        data : bytes
            An expression in JSON form, or anything else.
        """
        if len(data) > self._size_bytes_max:
            return None
        for head, between in _STYLES:
            if data.startswith(head) and data.endswith(_END):
                pieces = data[len(head) : -3].split(between)
                break
        else:
            if not data.startswith(b'{"attr"') or not data.endswith(b"}"):
                return None
            pieces = [data[1:-1]]
        vocabulary = self._vocabulary
        known = vocabulary.by_spelling
        try:
            numbers = [known[piece] for piece in pieces]
        except KeyError:
            found = self._learnt(pieces)
            if found is None:
                return None
            vocabulary, numbers = found
        if len(set(numbers)) != len(numbers):
            return None
        if self._schema.has_unique and len(numbers) > 1:
            names = {vocabulary.predicates[number].attribute for number in numbers}
            if len(names) != len(numbers):
                return None  # ranges of one attribute may have to be intersected
        return Conjunction(vocabulary, numbers)

    def _learnt(self, pieces: list[bytes]) -> tuple[Vocabulary, list[int]] | None:
        """Read pieces that are not all known; None when one of them is unusual."""
        if len(self._vocabulary.by_spelling) + len(pieces) > SPELLINGS_MAX:
            if len(pieces) > SPELLINGS_MAX:
                return None
            self._vocabulary = Vocabulary()  # those that have numbers of the old one keep it
        vocabulary = self._vocabulary
        numbers = []
        for piece in pieces:
            number = vocabulary.by_spelling.get(piece)
            if number is None:
                predicate = self._predicate(piece)
                if predicate is None:
                    return None
                number = vocabulary.number.setdefault(predicate, len(vocabulary.predicates))
                if number == len(vocabulary.predicates):
                    vocabulary.predicates.append(predicate)
                vocabulary.by_spelling[piece] = number
            numbers.append(number)
        return vocabulary, numbers

    def _predicate(self, piece: bytes) -> Predicate | None:
        # A tag may stand for any number of members, and only some tags are constants.
        if len(piece) > SPELLING_SIZE_BYTES_MAX or b"$" in piece:
            return None
        try:
            obj = msgspec.json.decode(b"{%b}" % piece)
            atom = expression_from_json(obj, self._limits)
            literal = canonical_literal(atom, self._schema) if type(atom) is Atom else None
        except (PubSubError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        return None if literal is None or literal.negated else literal.predicate
