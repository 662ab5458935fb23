"""What RR-4089 claims (Fabret, Llirbat, Jacobsen, Pereira, Ross, Shasha: Efficient matching algorithms for
publish and subscribe systems, 2000), in our words, and when we say that a claim holds.

A condition begins with its kind: E exact, decided without a clock; C counted, the same on every machine; R a
ratio of times or amounts, both sides in one run; S the shape of a curve; N nothing to decide. Thresholds are
ours, about half of the paper's effect.
"""

from __future__ import annotations

from pubsub_cluster.benchmarks.reproductions.outcome import Claim

MATCHING: dict[str, Claim] = {
    "RR-01": Claim(
        "abstract, 7",
        "dynamic sustains 600 events/s (166 ms per 100) at 6 M subscriptions, one CPU of 500 MHz",
        "N: events/s are shown; RR-02 to RR-07 decide. Section 7 prints '600 hundreds' (erratum)",
    ),
    "RR-02": Claim(
        "6.2.1, figure 3a",
        "dynamic, propagation with prefetch, propagation, counting: 166, 509, 804, 90377 ms per 100 events",
        "S: t(dynamic) < t(propagation with prefetch) < t(propagation) < t(counting), W0, 6 M",
    ),
    "RR-03": Claim(
        "figure 3a",
        "tables of several attributes beat single equalities: 166 / 509 = 0.33",
        "R: t(dynamic) / t(propagation with prefetch) <= 0.5, / t(propagation) <= 0.35, W0, 6 M",
    ),
    "RR-04": Claim(
        "figure 3a",
        "counting is 544 times slower than dynamic, 112 times than propagation",
        "R: t(counting) / t(dynamic) >= 100, t(counting) / t(propagation) >= 20, W0, 6 M",
    ),
    "RR-05": Claim(
        "6.2.1",
        "prefetch within clusters pays for many subscriptions: factor 1.5",
        "R: t(propagation) / t(propagation with prefetch) >= 1.2, W0, 6 M",
    ),
    "RR-06": Claim(
        "6.2.1",
        "the time of dynamic does not depend on the number of subscriptions",
        "S: t(6 M) / t(100 k) <= 1.5, W0, both phases",
    ),
    "RR-07": Claim(
        "6.2.1",
        "because new tables are made when clusters get large",
        "C: dynamic's checks per event at 6 M / at 100 k <= 15 (single equalities: 60); more tables at 6 M",
    ),
    "RR-08": Claim(
        "6.2.1",
        "dynamic finds nearly the clustering of static: one or two tables more; a few ms per 100 events",
        "C: numbers of tables differ by at most 2 at each size; R: t(dynamic) / t(static) <= 1.1",
    ),
    "RR-09": Claim(
        "6.2.1",
        "phase 1 dominates dynamic: 130 ms, phase 2 takes 10 ms",
        "R: phase 1 / phase 2 >= 2, W0, 6 M, with an ordinary index per attribute",
    ),
    "RR-10": Claim(
        "6.2.1",
        "phase 1 takes as long under propagation",
        "R: phase 1 of propagation with prefetch / of dynamic in 0.9 to 1.1, at each size",
    ),
    "RR-11": Claim(
        "6.2.1",
        "phase 2 of propagation with prefetch grows with the subscriptions: 10 ms to 353 ms",
        "S: slope of log time over log size between 0.7 and 1.1; phase 2 is >= 10 times dynamic's at 6 M",
    ),
    "RR-12": Claim(
        "6.2.1, figure 3b",
        "inequality predicates slow both algorithms",
        "S: t(W2) > t(W1) for dynamic and propagation with prefetch. W1's 'n_Pfix = 2' is n_Pfix= (erratum)",
    ),
    "RR-13": Claim(
        "figure 3b",
        "the loss from W1 to W2 is the same for both",
        "R: t(W2) - t(W1) of dynamic / of propagation with prefetch in 0.67 to 1.5 (read as a difference)",
    ),
    "RR-14": Claim(
        "figure 3b",
        "dynamic keeps its lead with inequalities",
        "R: t(dynamic) < t(propagation with prefetch) on W1 and W2",
    ),
    "RR-15": Claim(
        "figure 3b",
        "bits of inequalities are read only where all equalities hold",
        "C: reads of inequality bits of subscriptions with a false equality = 0",
    ),
    "RR-16": Claim(
        "figure 3b",
        "phase 1 finds more true inequalities on W2",
        "C: satisfied predicates that are no equality, per event, W2 > W1",
    ),
    "RR-17": Claim(
        "6.2.1",
        "memory: propagation least, then counting, dynamic most",
        "S: bytes(propagation) = bytes(with prefetch) < bytes(counting) < bytes(dynamic) at each size, "
        "counting / propagation <= 1.5",
    ),
    "RR-18": Claim(
        "figure 3d",
        "loading: counting is fastest, static slowest, dynamic significantly faster than static",
        "S: counting < dynamic < static; R: dynamic / static <= 0.7, batches of 10,000, largest size",
    ),
    "RR-19": Claim(
        "figures 3c, 3d, 2.3",
        "memory and loading grow with the subscriptions; space is linear in the predicates",
        "S: both grow from size to size; bytes per predicate at 6 M and at 1 M within 15 %",
    ),
    "RR-20": Claim(
        "6.2.2",
        "larger domains make both algorithms faster",
        "S: t falls (5 % noise) over domains 10, 30, 50, 70, 90, 100, dynamic and propagation with prefetch",
    ),
    "RR-21": Claim(
        "6.2.2",
        "dynamic is less sensitive to the domain",
        "R: t(10) / t(90) of dynamic < of propagation with prefetch; of phase 2 likewise",
    ),
    "RR-22": Claim(
        "6.2.2",
        "more predicates per subscription make dynamic faster",
        "S: phase 2 t(14) <= t(4); C: number of tables and sizes of their schemas do not shrink; domain 35",
    ),
}
ADAPTING: dict[str, Claim] = {
    "RR-23": Claim(
        "6.2.3",
        "the population is lifetime times rate: 16 h at 50/s are 2,880,000",
        "E: so; the text says 'three million events' for subscriptions (erratum); the last window starts at "
        "18.7 h, when the last old one has left",
    ),
    "RR-24": Claim(
        "figure 4a",
        "without maintenance throughput is halved when schemas change",
        "R: no change, last window / first window <= 0.65, 3 M",
    ),
    "RR-25": Claim(
        "figure 4a",
        "dynamic recovers: 350 against 200 events/s",
        "R: dynamic / no change in the last window >= 1.4, 3 M",
    ),
    "RR-26": Claim(
        "figure 4a",
        "dynamic is irregular, but mostly ahead; what a new table costs is soon repaid",
        "S: dynamic >= no change in more than half of the windows; after a window with new tables that dips, "
        "one of the next two is higher",
    ),
    "RR-27": Claim(
        "figure 4b",
        "without maintenance throughput falls by 20 % when subscriptions and events get skewed",
        "R: no change, last / first window between 0.6 and 0.9, 3 M",
    ),
    "RR-28": Claim(
        "figure 4b",
        "dynamic ends almost where it began",
        "R: dynamic, last / first window >= 0.9, and above that of RR-27",
    ),
    "RR-29": Claim(
        "figure 4b",
        "maintenance costs a little more than it brings at first, and pays after 8 hours",
        "S: dynamic below no change early, one crossing, between 20 % and 80 % of the drift",
    ),
    "RR-30": Claim(
        "6.2.3",
        "50 insertions and 50 deletions fit well into a second",
        "R: they take <= 0.5 s in every second without a new table, 3 M, dynamic",
    ),
    "RR-31": Claim(
        "example 3.1",
        "C1, tables A, B, C: 2.33 million subscriptions a table, 23,300 a cluster",
        "E: as printed, from rounded numbers",
    ),
    "RR-32": Claim(
        "example 3.1",
        "C2, tables A, B, C, AB, BC: 1.5, 1, 1.5, 1.5, 1.5 M; clusters of 15,000, 10,000, 15,000, 150, 150",
        "E: so",
    ),
    "RR-33": Claim(
        "example 3.1",
        "an event with A and B: C1 2 look-ups and 46,600 checks, C2 3 look-ups and 25,150 checks",
        "E: C2 exactly, C1 as 2 * 23,300 rounded; the cost model prefers C2",
    ),
    "RR-34": Claim(
        "example 3.1",
        "to split a cluster of one is not worth a look-up",
        "E: 1 M / 100^3 = 1; the greedy algorithm adds no table of four attributes",
    ),
}
ANALYSIS: dict[str, Claim] = {
    "RR-35": Claim(
        "2.3",
        "sizes of the structures",
        "E: bits = distinct predicates; each subscription in one cluster; references = predicates "
        "that are not in the access predicate",
    ),
    "RR-36": Claim(
        "2.3",
        "nothing is done twice",
        "C: per event each predicate is tested, and each subscription checked, at most once",
    ),
    "RR-37": Claim("2.3", "one equality on all: n / D_A checks", "C: mean checks per event within 2 % of it"),
    "RR-38": Claim(
        "2.3",
        "access by equality is exclusive",
        "C: at most one list of clusters per attribute is visited for an event",
    ),
    "RR-39": Claim(
        "2.3",
        "an insertion costs about as much as matching an event; indexes change only for a new predicate",
        "R: t(insert one) / t(match one) between 0.1 and 3, W0, 3 M; E: a copy leaves the indexes alone",
    ),
    "RR-40": Claim(
        "2.3",
        "deletion is fast, since each subscription knows its cluster",
        "S: t(delete at 6 M) / t(delete at 100 k) <= 2, dynamic, W0",
    ),
    "RR-41": Claim(
        "2.2.3",
        "loops written out for each number of predicates beat the generic one",
        "R: generic / special >= 1.1, one cluster, 3, 5 and 10 predicates",
    ),
    "RR-42": Claim(
        "2.2.3",
        "columns touch fewer cache lines than rows when the first test is selective",
        "R: t(rows) / t(columns) >= 1.3, 1 M, 1/35; C: not all lines of column 2 are touched",
    ),
    "RR-43": Claim(
        "2.2.3",
        "with many predicates, to prefetch all columns does not pay",
        "R: t(first 3 columns prefetched) <= 1.05 * t(all), 10 predicates",
    ),
    "RR-44": Claim(
        "3.2",
        "the search space has 2^(#S * mean #P) instances; greedy takes at most #S * #GA^2",
        "E: enumeration counts the product of 2^#P(s), empty groups included; C: steps within the bound",
    ),
    "RR-45": Claim(
        "3.2.3, 5",
        "greedy is a local optimum, better than only single and only maximal conjunctions",
        "C: cost(greedy) <= cost(singles), <= cost(maximal); no table more lowers it; it begins with none; "
        "W0, ADS, example 3.1; compared with the optimum on a tiny S",
    ),
    "RR-46": Claim(
        "3.1.1",
        "hashing costs in proportion to the schema, whatever the size of the table",
        "R: linear in 1 to 6 attributes with R^2 >= 0.9; sizes of 1 k to 4 M are shown",
    ),
    "RR-47": Claim(
        "3.1.1",
        "retrieval is linear in the tables, checking in the subscriptions",
        "R: R^2 >= 0.95 for 5 to 500 tables, and for clusters of 10 to 1 M",
    ),
    "RR-48": Claim(
        "4",
        "the cheap metrics are near the exact ones where predicates are selective",
        "C: (B - exact) / exact <= nu / (1 - nu); BM >= exact margin, error <= nu(P(s)) / (nu(p) - nu(P(s)))",
    ),
    "RR-49": Claim(
        "4.1",
        "redistribution ends, and moves a subscription at most once",
        "E: on random clusterings, per call of redistribute",
    ),
    "RR-50": Claim(
        "4.1",
        "maintenance costs in proportion to the moves",
        "R: linear fit of maintenance time over moves, R^2 >= 0.9, creation of tables apart",
    ),
    "RR-51": Claim(
        "4.1",
        "what each threshold governs",
        "S: candidate tables fall with BMmax; removed tables grow with Bmin; created tables fall with RPmin; "
        "E: a large cluster with nu * size < BMmax is never gone through",
    ),
    "RR-52": Claim(
        "6.1, footnote 6",
        "the number of schemas of a workload",
        "E: 4060, 1365, 29 and 24 for W0, DRIFT-SCHEMA, W1 and W2: as many as possible; all are drawn",
    ),
    "RR-53": Claim(
        "1, 1.1, 7",
        "six operators, one pair per attribute, disjunctions of conjunctions",
        "E: all five matchers as the naive one; in 1.2 A3 > 6 is right, its trigger's A3 < 6 is an erratum",
    ),
    "RR-54": Claim(
        "5",
        "matchers that are networks of tests suffer in locality, space and updates",
        "S: bytes and insertion time of Gough and Smith's and Aguilera et al.'s trees above counting's, "
        "T4, 10 k. Which of both follows one path is swapped against LESUB (erratum)",
    ),
}
CLAIMS: dict[str, Claim] = {**MATCHING, **ADAPTING, **ANALYSIS}
