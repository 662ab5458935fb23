"""Problems for tests of the configuration, made without a catalogue: clauses over predicates by number."""

from __future__ import annotations

import numpy as np

from pubsub_cluster.shm.code_space import FIRST_NUMBER_LABEL
from pubsub_cluster.tuner.configuration import Problem


def make_problem(
    domains: list[int],
    predicates: list[tuple[int, int, int]],
    clauses: list[list[int]] | np.ndarray,
    present: list[float] | None = None,
) -> Problem:
    """Make a problem over integer attributes whose values are equally likely.

    Parameters
    ----------
    domains : list of int
        Values ``0..domain-1`` of each attribute, all of them constants.
    predicates : list of (attribute, lo, hi)
        Closed intervals of values.
    clauses : list of lists of int, or int[n, k]
        Literals, ``2 * predicate + negated``.
    present : list of float, optional
    """
    attribute, lo, hi = np.array(predicates, np.int64).reshape(-1, 3).T
    here = np.ones(len(domains)) if present is None else np.array(present)
    label_count = np.array([FIRST_NUMBER_LABEL + 2 * domain + 1 for domain in domains])
    label_start = np.concatenate((np.zeros(1, np.int64), np.cumsum(label_count)))
    probability = np.zeros(int(label_start[-1]))
    for number, domain in enumerate(domains):
        first = label_start[number] + FIRST_NUMBER_LABEL
        probability[first + 1 : first + 2 * domain : 2] = here[number] / domain
    holds = (hi - lo + 1) / np.array(domains)[attribute] * here[attribute]
    if isinstance(clauses, np.ndarray):
        start = np.arange(len(clauses) + 1, dtype=np.int64) * clauses.shape[1]
        literal = clauses.reshape(-1)
    else:
        start = np.concatenate((np.zeros(1, np.int64), np.cumsum([len(clause) for clause in clauses])))
        literal = np.array([one for clause in clauses for one in clause])
    return Problem(
        attribute_count=len(domains),
        predicate_attribute=attribute.astype(np.int32),
        predicate_is_point=lo == hi,
        predicate_is_range=np.ones(len(lo), bool),
        predicate_is_flag=lo == hi,
        predicate_member_count=(lo == hi).astype(np.int32),
        predicate_lo=(FIRST_NUMBER_LABEL + 2 * lo + 1).astype(np.int32),
        predicate_hi=(FIRST_NUMBER_LABEL + 2 * hi + 1).astype(np.int32),
        predicate_probability=holds,
        clause_start=start.astype(np.int64),
        literal=literal.astype(np.int32),
        label_start=label_start,
        label_probability=probability,
        present=here,
        sample_labels=np.zeros((0, len(domains)), np.int32),
    )


def w0_problem(clause_count: int, seed: int = 0, domain: int = 35, size: int = 5) -> Problem:
    """Return W0 (RR-4089, section 6.2.1): equalities on two fixed attributes and others of 30."""
    random = np.random.default_rng(seed)
    free = np.argpartition(random.random((clause_count, 30), np.float32), size - 2, axis=1)[:, : size - 2] + 2
    attribute = np.concatenate((np.tile([0, 1], (clause_count, 1)), np.sort(free, axis=1)), axis=1)
    value = random.integers(0, domain, attribute.shape)
    predicates = [(a, v, v) for a in range(32) for v in range(domain)]
    return make_problem([domain] * 32, predicates, 2 * (attribute * domain + value))


def ht_problem(clause_count: int, seed: int = 0, attribute_count: int = 50, size: int = 20) -> Problem:
    """Return HT-n (HTREE, section 5.2.1): ranges of a tenth on `size` attributes; 1,000 values each."""
    random = np.random.default_rng(seed)
    chosen = np.argpartition(random.random((clause_count, attribute_count), np.float32), size, axis=1)[
        :, :size
    ]
    lo = random.integers(0, 900, chosen.shape)
    predicates = [(a, v, v + 100) for a in range(attribute_count) for v in range(900)]
    return make_problem([1_000] * attribute_count, predicates, 2 * (np.sort(chosen, axis=1) * 900 + lo))
