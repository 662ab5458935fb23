"""What `tuner.clustering` and `tuner.dynamic` keep in columns, worked out plainly from who lies where."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np

from pubsub_cluster.tuner.clustering import FREE, Clustering
from pubsub_cluster.tuner.dynamic import DynamicClustering

DOMAIN = 3


def make_books(attributes: int, nu: list[float] | None = None) -> Clustering:
    """Return empty books with `DOMAIN` equalities per attribute, atom ``DOMAIN * attribute + value``."""
    count = attributes * DOMAIN
    way = 2 * np.repeat(np.arange(attributes, dtype=np.int32), DOMAIN)
    return Clustering(way, np.array(nu or [1.0 / DOMAIN] * count), np.ones(attributes))


def insert(dynamic: DynamicClustering | Clustering, subscriptions: list[tuple[int, ...]]) -> list[int]:
    """Insert subscriptions given by their atoms; every one is as large as it has atoms."""
    start = np.cumsum([0, *map(len, subscriptions)])
    atom = np.array([atom for mine in subscriptions for atom in mine], np.int32)
    return dynamic.insert(start, atom, np.diff(start).astype(np.int32)).tolist()


def atoms_of(books: Clustering, number: int) -> frozenset[int]:
    """Return the atoms of a subscription."""
    return frozenset(atom for atom in books.atom[number].tolist() if atom >= 0)


def access_of(books: Clustering, cluster: int) -> frozenset[int]:
    """Return the access predicate of a cluster."""
    return frozenset(atom for atom in books.cluster_atom[cluster].tolist() if atom >= 0)


def nu_of(books: Clustering, atoms: frozenset[int]) -> float:
    """Return the probability of a set of atoms."""
    return math.prod(float(books.atom_nu[atom]) for atom in sorted(atoms, key=lambda a: books.atom_way[a]))


def check_books(books: Clustering, expected: dict[int, frozenset[int]]) -> None:
    """Compare all columns with a plain recomputation; `expected` are the subscriptions and their atoms."""
    assert books.numbers.tolist() == sorted(expected)
    clusters: Counter[int] = Counter()
    schemas: Counter[int] = Counter()
    places: dict[tuple[frozenset[int], int, int], int] = {}
    for number, atoms in expected.items():
        cluster = int(books.cluster[number])
        assert cluster != FREE
        schema, access = int(books.cluster_schema[cluster]), access_of(books, cluster)
        assert access <= atoms == atoms_of(books, number)
        assert tuple(sorted(int(books.atom_way[atom]) for atom in access)) == books.ways(schema)
        assert books.cluster_size[cluster] == books.size[number]
        assert books.is_slot(schema) or schema in books.tables
        assert places.setdefault((access, schema, int(books.size[number])), cluster) == cluster
        assert math.isclose(books.cluster_nu[cluster], nu_of(books, access), rel_tol=1e-9)
        clusters[cluster] += 1
        schemas[schema] += 1
    assert books.cluster_count.tolist() == [clusters[c] for c in range(len(books.cluster_count))]
    assert books.schema_count.tolist() == [schemas[s] for s in range(len(books.schema_count))]


def powers(dynamic: DynamicClustering) -> Counter[tuple[int, ...]]:
    """Return RP of every candidate by ways: subscriptions to be repaired with nu(p_c) >= nu(p_s^H)."""
    books, found = dynamic.clustering, Counter[tuple[int, ...]]()
    to_repair = dynamic.to_repair
    for number in books.numbers.tolist():
        cluster = int(books.cluster[number])
        if not to_repair[cluster]:
            continue
        now = nu_of(books, access_of(books, cluster))
        atoms = sorted(atoms_of(books, number), key=lambda atom: books.atom_way[atom])
        for size in range(1, len(atoms) + 1):
            for subset in itertools.combinations(atoms, size):
                if nu_of(books, frozenset(subset)) <= now * (1 + 1e-9):
                    found[tuple(int(books.atom_way[atom]) for atom in subset)] += 1
    return found
