"""The dynamic algorithm: RR-4089, section 4, definition by definition, against plain recomputation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_clustering import DOMAIN, atoms_of, check_books, insert, make_books, nu_of, powers

from pubsub_cluster.language.errors import LimitError
from pubsub_cluster.tuner import reparation
from pubsub_cluster.tuner.clustering import ATOMS_MAX, Clustering
from pubsub_cluster.tuner.constants import CostConstants
from pubsub_cluster.tuner.dynamic import CREATED, REDISTRIBUTED, REMOVED, DynamicClustering
from pubsub_cluster.tuner.messages import Thresholds
from pubsub_cluster.tuner.reparation import subsets

ATTRIBUTES = 4
NEVER = Thresholds(bm_max=1e9, b_min=0.0, rp_min=1e9)
EAGER = Thresholds(bm_max=0.5, b_min=2.0, rp_min=4.0)

EMPTY = 0  # the schema without atoms


def atom(attribute: int, value: int) -> int:
    return DOMAIN * attribute + value


subscription = st.dictionaries(
    st.integers(0, ATTRIBUTES - 1), st.integers(0, DOMAIN - 1), max_size=ATTRIBUTES
)
chance = st.sampled_from((0.02, 0.1, 1 / 3, 0.5, 0.9))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.lists(subscription, min_size=1, max_size=30)),
        st.tuples(st.just("remove"), st.integers(0, 1 << 30)),
        st.tuples(st.just("events"), st.lists(chance, min_size=12, max_size=12)),
        st.tuples(st.just("set"), st.tuples(*[st.sampled_from((0.0, 0.3, 1.0, 3.0, 9.0))] * 3)),
        st.tuples(st.just("maintain"), st.none()),
    ),
    min_size=3,
    max_size=12,
)


class Recorder(Clustering):
    """Counts how often each subscription moves."""

    def __init__(self, *statistics: np.ndarray) -> None:
        self.moves: list[int] = []
        super().__init__(*statistics)

    def move(self, numbers, places):  # type: ignore[no-untyped-def]
        super().move(numbers, places)
        self.moves += numbers.tolist()


@given(steps, st.booleans())
@settings(max_examples=100, deadline=None)
def test_whatever_happens_everybody_is_in_one_cluster_and_metrics_are_a_plain_recomputation(
    steps: list, is_adaptive: bool
) -> None:
    books = Recorder(*_statistics([1 / DOMAIN] * 12))
    dynamic = DynamicClustering(books, thresholds=Thresholds() if is_adaptive else EAGER)
    expected: dict[int, frozenset[int]] = {}
    for what, value in [*steps, ("maintain", None)]:
        if what == "insert":
            given_ = [tuple(atom(*pair) for pair in sorted(mine.items())) for mine in value]
            numbers = insert(dynamic, given_)
            expected |= dict(zip(numbers, map(frozenset, given_), strict=True))
            for number in numbers:
                assert _is_best(dynamic, number)
        elif what == "remove":
            gone = [number for number in expected if value >> number % 30 & 1]
            dynamic.remove(np.array(gone, np.int64))
            for number in gone:
                del expected[number]
        elif what == "events":
            dynamic.set_statistics(*_statistics(value))
        elif what == "set":
            low, middle, high = value
            dynamic.thresholds = Thresholds(low, min(middle, high), max(middle, high))
        else:
            books.moves = []
            decisions = dynamic.maintain()
            again = [number for d in decisions if d.kind == REDISTRIBUTED for number in d.moved.tolist()]
            times = {kind: [d for d in decisions if d.kind == kind] for kind in (CREATED, REMOVED)}
            assert len(books.moves) == len(again) + sum(
                len(d.moved) for kind in times for d in times[kind]
            ), "somebody moved twice in one redistribution"
            found = powers(dynamic)
            for ways, power in found.items():
                assert dynamic.power(books.schema(ways)) == power
            assert sum(found.values()) == dynamic._reparation.power.sum()
            assert (dynamic.to_repair == dynamic.in_excess()).all()
        check_books(books, expected)


def _statistics(nu: list[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    way = 2 * np.repeat(np.arange(ATTRIBUTES, dtype=np.int32), DOMAIN)
    return way, np.array(nu), np.ones(ATTRIBUTES)


def _is_best(dynamic: DynamicClustering, number: int) -> bool:
    """Say whether no table that there is, and no slot, promises less."""
    books, atoms = dynamic.clustering, atoms_of(dynamic.clustering, number)
    best = min((nu_of(books, frozenset((one,))) for one in atoms), default=1.0)
    for table in books.tables:
        access = frozenset(one for one in atoms if books.atom_way[one] in books.ways(table))
        if len(access) == len(books.ways(table)):
            best = min(best, nu_of(books, access))
    return bool(books.nu_of(np.array([number]))[0] <= best * (1 + 1e-8))


@given(st.lists(subscription, min_size=1, max_size=40), st.lists(chance, min_size=12, max_size=12))
@settings(max_examples=100, deadline=None)
def test_redistribution_leaves_nobody_in_an_excessive_cluster_who_would_be_better_off(
    subscriptions: list, nu: list
) -> None:
    books = make_books(ATTRIBUTES)
    for ways in ((0, 2), (0, 4, 6), (2, 4)):
        books.add_table(books.schema(ways))
    dynamic = DynamicClustering(books, thresholds=Thresholds(bm_max=0.6, b_min=0.0, rp_min=1e9))
    numbers = insert(dynamic, [tuple(atom(*pair) for pair in mine.items()) for mine in subscriptions])
    dynamic.set_statistics(*_statistics(nu))
    dynamic.maintain()
    excess = dynamic.in_excess()[books.cluster[numbers]]
    for number in np.array(numbers)[excess].tolist():
        assert _is_best(dynamic, number)
    assert dynamic.maintain() == [], "a second time nobody would move"


def test_of_many_subscriptions_a_sample_has_the_powers_and_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reparation, "COUNTED_MAX", 1_000)
    random, all_of_it = np.random.default_rng(3), Thresholds(0.0, 0.0, 1e9)
    dynamic = DynamicClustering(make_books(ATTRIBUTES), thresholds=all_of_it)
    value = random.integers(0, DOMAIN, (8_000, ATTRIBUTES))
    everybody = [tuple(atom(a, v) for a, v in enumerate(row)) for row in value.tolist()]
    numbers = np.array(insert(dynamic, everybody))
    dynamic.maintain()
    sums, found = dynamic._reparation, powers(dynamic)
    assert sums._step == 8 and sums.power.sum() < 8 * 1_200 * len(subsets(ATTRIBUTES))
    for ways, power in found.items():
        estimate = dynamic.power(dynamic.clustering.schema(ways))
        assert abs(estimate - power) < 5.0 * np.sqrt(8.0 * power)
    dynamic.remove(numbers[::2])  # not those of the sample alone
    for ways, power in powers(dynamic).items():
        assert abs(dynamic.power(dynamic.clustering.schema(ways)) - power) < 5.0 * np.sqrt(8.0 * power)
    dynamic.remove(numbers[1::2])
    assert not sums.power.any() and not sums.mover_count.any()
    assert np.abs(sums.saved).max() < 1e-6 and np.abs(sums.checked).max() < 1e-6


def test_statistics_that_stay_leave_nothing_to_be_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """New atoms come behind the others; sums start again with a larger step once they are of too many."""
    monkeypatch.setattr(reparation, "COUNTED_MAX", 1_000)
    dynamic = DynamicClustering(make_books(ATTRIBUTES), thresholds=Thresholds(0.0, 0.0, 1e9))
    value = np.random.default_rng(3).integers(0, DOMAIN, (8_000, ATTRIBUTES))
    everybody = [tuple(atom(a, v) for a, v in enumerate(row)) for row in value.tolist()]
    books, sums = dynamic.clustering, dynamic._reparation
    insert(dynamic, everybody[:2_000])
    dynamic.maintain()
    asked: list[int] = []
    plain = books.best
    monkeypatch.setattr(
        books, "best", lambda numbers, **how: asked.append(len(numbers)) or plain(numbers, **how)
    )
    statistics = _statistics(books.atom_nu[:-1].tolist())
    dynamic.add_atoms(*statistics)
    dynamic.maintain()
    assert sums._step == 2 and asked == [], "everybody stands where he is best off"
    insert(dynamic, everybody[2_000:])
    dynamic.add_atoms(*statistics)
    dynamic.maintain()
    assert sums._step == 8
    for ways, power in powers(dynamic).items():
        assert abs(dynamic.power(books.schema(ways)) - power) < 5.0 * np.sqrt(8.0 * power)


def test_tables_are_asked_again_when_others_have_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a table's subscriptions would lose without it is theirs, not that of as many others."""
    books = make_books(ATTRIBUTES)
    table = books.schema((0, 2))
    books.add_table(table)
    dynamic = DynamicClustering(books, thresholds=Thresholds(bm_max=1e9, rp_min=1e9))
    numbers = np.array(
        insert(dynamic, [(atom(0, n % DOMAIN), atom(1, n // DOMAIN % DOMAIN)) for n in range(900)])
    )
    first = dynamic._losses()[table]
    assert dynamic._losses()[table] == first and not dynamic._changes[table]
    dynamic.remove(numbers[:450])
    insert(dynamic, [(atom(0, 0), atom(1, 1), atom(2, n % DOMAIN)) for n in range(450)])
    assert dynamic._changes[table] == 900
    dynamic._losses()
    assert not dynamic._changes[table]


def test_the_metrics_of_the_report_approximate_the_exact_ones() -> None:
    """RR-48: within nu/(1 - nu) for B, nu(P(s))/(nu(p) - nu(P(s))) for BM, which is never below."""
    books = make_books(ATTRIBUTES, [0.01, 0.1, 0.3] * ATTRIBUTES)
    table = books.schema((0, 2))
    books.add_table(table)
    everybody = list(itertools.product(*[[atom(a, v) for v in range(DOMAIN)] for a in range(ATTRIBUTES)]))
    numbers = np.array(insert(books, everybody))
    dynamic = DynamicClustering(books, thresholds=NEVER)
    in_table = numbers[books.cluster_schema[books.cluster[numbers]] == table]
    nu = books.nu_of(in_table)
    exact = float((1.0 - nu).sum())
    assert 0.0 <= (books.schema_count[table] - exact) / exact <= nu.max() / (1.0 - nu.max())
    for cluster in np.unique(books.cluster[in_table]).tolist():
        mine = [nu_of(books, atoms_of(books, n)) for n in numbers[books.cluster[numbers] == cluster].tolist()]
        margin = float(dynamic.margin()[cluster])
        exact_margin = sum(float(books.cluster_nu[cluster]) - one for one in mine)
        assert exact_margin <= margin
        bound = max(one / (float(books.cluster_nu[cluster]) - one) for one in mine)
        assert (margin - exact_margin) / exact_margin <= bound * (1 + 1e-9)


def fifty(first: int = 0) -> list[tuple[int, ...]]:
    """Return subscriptions that share their first equality."""
    return [(atom(0, 0), atom(1, n % DOMAIN), atom(2, n // 3 % DOMAIN)) for n in range(first, first + 50)]


def test_situation_1_is_reached_at_bm_max_and_not_below() -> None:
    books = make_books(ATTRIBUTES)
    dynamic = DynamicClustering(books, thresholds=Thresholds(50 / 3 + 0.01, 0.0, 1.0))
    insert(dynamic, fifty())
    assert not dynamic.in_excess().any() and dynamic.maintain() == []
    dynamic.thresholds = Thresholds(50 / 3 - 0.01, 0.0, 1.0)
    assert dynamic.in_excess().sum() == 1
    assert [decision.kind for decision in dynamic.maintain()] == [CREATED]


def test_a_large_cluster_that_is_rarely_checked_is_never_reorganised() -> None:
    """RR-51: nu * size decides, not the size."""
    books = make_books(ATTRIBUTES, [1e-4] + [0.5] * 11)
    dynamic = DynamicClustering(books, thresholds=Thresholds(1.0, 0.0, 1.0))
    for _ in range(20):
        insert(dynamic, fifty())
        assert dynamic.maintain() == []
    assert books.cluster_count.max() == 1_000


def test_reparation_power_accumulates_over_calls_until_it_is_sufficient() -> None:
    books = make_books(ATTRIBUTES)
    dynamic = DynamicClustering(books, thresholds=Thresholds(1.0, 0.0, 120.0))
    for power in (50, 100):
        insert(dynamic, fifty())
        assert dynamic.maintain() == []
        assert dynamic.power(books.schema((0, 2))) == power
    insert(dynamic, fifty())
    (decision,) = dynamic.maintain()
    assert decision.kind == CREATED and decision.ways == (0, 2, 4)  # of the sufficient ones it saves most
    assert decision.figures["power"] == 150.0 and decision.figures["power_min"] == 120.0
    assert decision.to_dict()["moved"] == 150
    assert not dynamic.to_repair[decision.left].any()


def test_rp_counts_equal_tables_but_nobody_moves_to_one() -> None:
    books = make_books(2, [1 / 3, 1 / 3, 1 / 3, 1.0, 1.0, 1.0])
    dynamic = DynamicClustering(books, thresholds=Thresholds(0.1, 0.0, 1.0))
    insert(dynamic, [(atom(0, 0), atom(1, 0))] * 9)
    assert dynamic.maintain() == []  # the second equality always holds: (0, 2) promises no less than (0,)
    assert dynamic.power(books.schema((0, 2))) == 9
    assert books.tables == []


def test_clusters_by_all_of_their_equalities_do_not_loop() -> None:
    """D-10: BM stays positive where p = P(s), yet nothing can be gained."""
    books = make_books(2)
    dynamic = DynamicClustering(books, thresholds=Thresholds(0.1, 0.0, 1.0))
    insert(dynamic, [(atom(0, 0),)] * 40 + [()] * 5)
    for _ in range(3):
        assert dynamic.maintain() == []
    assert dynamic.to_repair.sum() == 2
    assert books.schema_count[EMPTY] == 5


def test_situation_2_removes_the_table_and_its_subscriptions_go_to_the_best_of_the_others() -> None:
    books = make_books(ATTRIBUTES)
    small, other = books.schema((0, 2, 4)), books.schema((0, 2))
    books.add_table(small)
    books.add_table(other)
    dynamic = DynamicClustering(books, thresholds=Thresholds(1e9, 50.0, 1e9))
    numbers = insert(dynamic, fifty())
    assert books.schema_count[small] == 50 and dynamic.maintain()[0].ways == (0, 2), "empty ones go first"
    books.add_table(other)
    dynamic.thresholds = Thresholds(1e9, 0.0, 1e9)
    insert(dynamic, [(atom(0, 0), atom(1, 0))] * 60)
    dynamic.remove(np.array(numbers[:1]))
    dynamic.thresholds = Thresholds(1e9, 50.0, 1e9)
    (decision,) = dynamic.maintain()
    assert (decision.kind, decision.ways) == (REMOVED, (0, 2, 4))
    assert decision.figures["benefit"] == 49.0 and decision.figures["benefit_min"] == 50.0
    assert sorted(decision.moved.tolist()) == numbers[1:]
    assert books.schema_count[other] == 60 + 49
    insert(dynamic, fifty())
    assert books.schema_count[small] == 0


def test_slots_are_never_removed() -> None:
    books = make_books(2)
    dynamic = DynamicClustering(books, thresholds=Thresholds(1e9, 100.0, 1e9))
    numbers = insert(dynamic, [(atom(0, 0),)])
    assert dynamic.maintain() == []
    dynamic.remove(np.array(numbers))
    assert dynamic.maintain() == [] and insert(dynamic, [(atom(0, 1),)]) == numbers


@pytest.mark.parametrize("name", ["bm_max", "rp_min", "b_min"])
def test_what_each_threshold_governs(name: str) -> None:
    """RR-51: candidates fall with BMmax, tables created fall with RPmin, tables removed grow with Bmin."""
    rng = np.random.default_rng(7)
    drawn = rng.integers(0, DOMAIN, (400, ATTRIBUTES)) + DOMAIN * np.arange(ATTRIBUTES)
    subscriptions = [tuple(row[rng.random(ATTRIBUTES) < 0.7].tolist()) for row in drawn]
    seen = []
    for value in (1.0, 5.0, 20.0, 80.0, 400.0):
        books = make_books(ATTRIBUTES)
        dynamic = DynamicClustering(books)
        if name == "b_min":
            for ways in itertools.combinations(range(0, 2 * ATTRIBUTES, 2), 2):
                books.add_table(books.schema(ways))
            dynamic.thresholds = Thresholds(1e9, value, 1e9)
        else:
            dynamic.thresholds = Thresholds(**{"bm_max": 1.0, "b_min": 0.0, "rp_min": 1.0, name: value})
        insert(dynamic, subscriptions)
        candidates = int(dynamic.in_excess().sum())
        decisions = dynamic.maintain()
        kinds = [decision.kind for decision in decisions]
        seen.append(
            {"bm_max": candidates, "rp_min": kinds.count(CREATED), "b_min": kinds.count(REMOVED)}[name]
        )
    assert seen == sorted(seen, reverse=name != "b_min")
    assert seen[0] != seen[-1]


def test_adaptive_thresholds_create_a_table_when_it_saves_its_price_and_drop_it_when_it_does_not() -> None:
    constants = CostConstants(*[0.0] * 11)._replace(entry_ns=1.0, table_ns=4.0, probe_ns=6.0)
    books = make_books(2)
    dynamic = DynamicClustering(books, constants)
    # n subscriptions at nu = 1/3 that would be at 1/9: a table of price 10 saves 2/9 n
    numbers = insert(dynamic, [(atom(0, n % 3), atom(1, 0)) for n in range(44)])
    assert dynamic.maintain() == []
    numbers += insert(dynamic, [(atom(0, n % 3), atom(1, 0)) for n in range(2)])
    (decision,) = dynamic.maintain()
    assert decision.ways == (0, 2)
    assert decision.figures["price"] == pytest.approx(10.0)
    assert decision.figures["saves"] == pytest.approx(46 * 2 / 9)
    assert decision.figures["power_min"] == pytest.approx(45.0)
    dynamic.remove(np.array(numbers[:23]))
    assert dynamic.maintain() == []  # half of the price is still saved
    dynamic.remove(np.array(numbers[23:24]))
    (decision,) = dynamic.maintain()
    assert decision.kind == REMOVED and decision.figures["loss_per_subscription"] == pytest.approx(2 / 9)
    assert books.tables == []


def test_atoms_are_the_most_selective_ones_one_per_way() -> None:
    count = 2 * ATOMS_MAX
    books = Clustering(
        2 * (np.arange(count, dtype=np.int32) // 2), np.linspace(0.9, 0.1, count), np.ones(ATOMS_MAX)
    )
    insert(books, [tuple(range(count)), (0, 1)])
    kept = atoms_of(books, 0)
    assert kept == frozenset(range(ATOMS_MAX, count, 2)) and len(atoms_of(books, 1)) == 1
    assert books.ways(int(books.cluster_schema[books.cluster[0]])) == (2 * (ATOMS_MAX - 1),)


def test_a_table_by_cell_of_one_attribute_is_a_table_and_no_slot() -> None:
    books = Clustering(np.array([1, 0], np.int32), np.array([0.2, 0.5]), np.ones(1))
    dynamic = DynamicClustering(books, thresholds=Thresholds(1.0, 0.0, 10.0))
    insert(dynamic, [(0,)] * 10)
    assert books.schema_count[EMPTY] == 10, "a range alone has no slot of its own"
    (decision,) = dynamic.maintain()
    assert (decision.kind, decision.ways) == (CREATED, (1,))


@pytest.mark.parametrize(
    "values", [{"bm_max": -1.0}, {"rp_min": float("nan")}, {"b_min": 3.0, "rp_min": 2.0}]
)
def test_thresholds_that_make_no_sense_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(LimitError):
        Thresholds(**values)
