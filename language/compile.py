"""From the JSON form straight to the normal form, in one walk that remembers predicates.

Catalogues say the same few things over and over: of the predicates of 200,000 flight alerts only a few
thousand differ. The compiler keeps what each plain predicate became, so that a repeated one costs a
look-up, and makes no tree. Whatever is unusual, a limit that is near, an odd shape, anything that is an
error, goes the long way through `expression_from_json` and `normalise`, which alone decide what is right
and what is said; the short way must give what they give or give up.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from pubsub_cluster.language.canonical import Literal, canonical_literal
from pubsub_cluster.language.errors import PubSubError
from pubsub_cluster.language.expression import Atom
from pubsub_cluster.language.json_form import expression_from_json
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.normalise import FALSE_NODE, TRUE_NODE, Node, Predicates, joined, normalise
from pubsub_cluster.language.predicate import NormalForm
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema

LITERALS_KEPT_MAX = 65_536
PLAIN_CONSTANTS: Final = frozenset({str, int, float, bool})

# The type is part of the key: 1, 1.0 and True are equal in Python and differ here.
_Key: TypeAlias = tuple[str, str, type, Any]


class _Unusual(Exception):
    """Take the long way."""


class Compiler:
    """Compiles JSON expressions under one schema and its limits; not for several threads.

    Parameters
    ----------
    schema : Schema
    limits : Limits
    """

    def __init__(self, schema: Schema = EMPTY_SCHEMA, limits: Limits = DEFAULT_LIMITS) -> None:
        self._schema = schema
        self._limits = limits
        self._literals: dict[_Key, Literal | None] = {}
        self._nodes_left = 0

    def normal_form(self, obj: Any) -> NormalForm:
        """Return ``normalise(expression_from_json(obj))``, with its errors.

        Parameters
        ----------
        obj : object
            An expression in JSON form, as a decoder gives it.
        """
        self._nodes_left = self._limits.nodes_per_subscription_max
        predicates = Predicates(self._schema, self._limits)
        try:
            root = self._node(obj, False, self._limits.nesting_depth_max, predicates)
            if self._nodes_left <= 0:
                raise _Unusual
        except (_Unusual, PubSubError):
            return normalise(expression_from_json(obj, self._limits), self._schema, self._limits)
        return predicates.normal_form(root)

    def _node(self, obj: Any, negated: bool, depth_left: int, predicates: Predicates) -> Node:
        self._nodes_left -= 1
        if type(obj) is not dict or depth_left <= 0 or self._nodes_left <= 0:
            raise _Unusual
        if "op" in obj:
            literal = self._literal(obj)
            if literal is None:
                return TRUE_NODE if negated else FALSE_NODE
            predicate, predicate_negated = literal
            found = predicates.found
            return 2 * found.setdefault(predicate, len(found)) + (predicate_negated is not negated)
        if len(obj) != 1:
            raise _Unusual
        ((connective, body),) = obj.items()
        if connective == "not":
            return self._node(body, not negated, depth_left - 1, predicates)
        if (connective != "and" and connective != "or") or type(body) is not list:
            raise _Unusual
        children = [self._node(child, negated, depth_left - 1, predicates) for child in body]
        return joined((connective == "and") is not negated, children)

    def _literal(self, obj: dict[str, Any]) -> Literal | None:
        name, operator, value = obj.get("attr"), obj["op"], obj.get("value")
        if len(obj) == 3 and type(value) in PLAIN_CONSTANTS and type(name) is str and type(operator) is str:
            key = (name, operator, type(value), value)
            try:
                return self._literals[key]
            except KeyError:
                literal = self._read(obj)
            if len(self._literals) >= LITERALS_KEPT_MAX:
                self._literals.clear()
            self._literals[key] = literal
            return literal
        if type(value) is dict:
            raise _Unusual  # a tag may stand for any number of members
        if type(value) is list:
            self._nodes_left -= len(value)
        return self._read(obj)

    def _read(self, obj: dict[str, Any]) -> Literal | None:
        atom = expression_from_json(obj, self._limits)
        assert isinstance(atom, Atom)
        return canonical_literal(atom, self._schema)
