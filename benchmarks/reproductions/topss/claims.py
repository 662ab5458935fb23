"""What TOPSS claims, in our words, and when we say that a claim holds; see `outcome.Claim`.

A condition begins with its kind: E exact, decided without a clock; C counted, the same on every machine; R a
ratio of times or amounts, both sides in one run; S the shape of a curve. Thresholds are ours, about half of
the paper's effect. n is the number of subscriptions, m of distinct predicates, n_P of predicates of one.
"""

from __future__ import annotations

from pubsub_cluster.benchmarks.reproductions.outcome import Claim

_PREDICATES = {
    "TOPSS-01": Claim(
        "figure 2.1",
        "matching by predicate tables slows as the domain grows",
        "S: at equal numbers of predicates t(T-SMALL) < t(T-MEDIUM) < t(T-BIG)",
    ),
    "TOPSS-02": Claim(
        "figure 2.2",
        "matching by ordered lists hardly depends on the domain",
        "R: max/min over T-MEDIUM, T-BIG and T-MIX at equal numbers of predicates <= 1.3",
    ),
    "TOPSS-03": Claim(
        "figure 2.3",
        "on mixed domains lists are faster with few predicates, tables with many",
        "S: T-MIX from 1,000 predicates: list faster at the smallest, table at the largest, one crossing",
    ),
    "TOPSS-04": Claim(
        "figure 2.4",
        "the memory of tables follows their number and the size of domains",
        "C: bytes = sum over attributes of 4 operators * (u - l + 1) * bytes of an id, at every size",
    ),
    "TOPSS-05": Claim(
        "figure 2.5",
        "the memory of lists follows the number of predicates only",
        "C: bytes per predicate constant within 10 % over domains",
    ),
    "TOPSS-06": Claim(
        "figure 2.6",
        "on mixed domains lists are smaller with few predicates, tables with many",
        "S: T-MIX: list smaller at the smallest, table at the largest; bytes of a node and a cell are stated",
    ),
    "TOPSS-07": Claim(
        "5.1.1",
        "T-SMALL has no more distinct predicates after the first few thousand",
        "E: the generator stops at 120 * 250 * 4 = 120,000 (the paper's limit is far below: ambiguous)",
    ),
    "TOPSS-08": Claim(
        "3.2",
        "insertion, deletion and look-up in a table take constant time",
        "S: t at 1,000,000 predicates / t at 10,000 <= 1.5 for insertion and deletion",
    ),
    "TOPSS-09": Claim(
        "3.1",
        "operations on lists search every operator's list of the attribute, O(n * nb_op)",
        "C: nodes visited <= n * nb_op; S: linear in n, read as a slope of 0.9 to 1.2 of nodes and of time",
    ),
    "TOPSS-10": Claim(
        "3.2, figure 1",
        "one look-up of v gives > below v, < above v, = at v, <> all but v",
        "E: equal to brute force for every v in l..u; v > w true implies all > of smaller constants",
    ),
    "TOPSS-11": Claim(
        "3",
        "the same predicate has one id in all subscriptions",
        "E: as many ids as distinct live predicates",
    ),
    "TOPSS-12": Claim(
        "3",
        "ids of deleted predicates and subscriptions are given again before new ones",
        "E: a new id only where none is free; the largest id below the peak of live ones",
    ),
    "TOPSS-13": Claim("3", "n bytes of the predicate bit vector hold 8n predicates", "E: ceil(m / 8) bytes"),
}
_SUBSCRIPTIONS = {
    "TOPSS-14": Claim(
        "3.3",
        "a subscription has at most 256 predicates, counted in an unsigned char",
        "E: 254 to 257 predicates; erratum: a byte counts to 255, and 256 is none; more than 255 are refused",
    ),
    "TOPSS-15": Claim(
        "3.3",
        "a bit matrix takes n * m, lists n * m_avg",
        "C: T4, m = 400: n * m / 8 bytes (n to whole words), and n * m_avg ids",
    ),
    "TOPSS-16": Claim(
        "3.3, 5.1.2",
        "lists are smallest, but with what deletion needs a bit matrix is smaller",
        "S: bytes(list) < bytes(bit), bytes(list and reverse) > bytes(bit), in ids of 4 bytes",
    ),
    "TOPSS-17": Claim(
        "3.3",
        "matching by a bit matrix costs n_psat * m + m",
        "C: erratum: hits are per subscription: n_psat * n / 64 words, and n comparisons",
    ),
    "TOPSS-18": Claim(
        "3.3",
        "matching by lists costs n_psat * m_avg",
        "C: erratum: a list has n * m_avg / m ids: n_psat * n * m_avg / m within 10 %, and n comparisons",
    ),
    "TOPSS-19": Claim(
        "3.3",
        "deletion clears a column of the matrix, insertion sets one; lists need those of its predicates",
        "E: all m cells of the column are 0 and no other changed; C: deletion touches n_P lists",
    ),
    "TOPSS-20": Claim(
        "figure 3",
        "lists are fastest, the byte matrix is slowest",
        "S: t(list) < t(bit) < t(byte) at every n",
    ),
    "TOPSS-21": Claim(
        "5.1.2", "bits outperform bytes by a factor of about 3", "R: t(byte) / t(bit) >= 2 from 100,000 on"
    ),
    "TOPSS-22": Claim(
        "5.1.2",
        "the byte matrix cannot hold all 5,000,000 subscriptions",
        "C: bytes(byte) = 8 * bytes(bit); 2 GB, on the paper's machine of 1.5 GB",
    ),
    "TOPSS-23": Claim(
        "table 1",
        "bit-wise, ms per event: 0.3, 1.9, 3.8, 20.0, 40.4, 264.0, 562.4, 1555.7",
        "S: slope of 0.9 to 1.2 up to 1,000,000",
    ),
    "TOPSS-24": Claim(
        "table 1",
        "list-based, ms per event: 0.10, 0.27, 0.63, 3.85, 8.10, 79.00, 190.70, 1056.00",
        "R: t(bit) / t(list) >= 1.2 at every n; the lead shrinks above 100,000, slope to 1 M > 1.1",
    ),
    "TOPSS-25": Claim(
        "table 1",
        "Kdb, ms per event: 89.3, 206.4, 397.4, 1800.3, 3451.2, 17299.7, 33473.1, 338166.1",
        "R: better query on DuckDB: DBMS/bit >= 10, DBMS/list >= 30 at every n; S: slope 0.9 to 1.2",
    ),
}
_LOADING = {
    "TOPSS-26": Claim(
        "table 2",
        "bit-wise bulk load, ms: 6, 26, 52, 261, 523, 2712, 5428, 26976",
        "S: slope 0.95 to 1.05; never slower than lists or a DBMS (a tenth is a tie)",
    ),
    "TOPSS-27": Claim(
        "table 2",
        "list bulk load, ms: 6, 28, 58, 353, 862, 16093, 97746, < 2678858; lists grow by a constant",
        "S: slope >= 1.5 from 100,000 to 1 M, list/bit at 1 M >= 5; E: doubling, ids moved are linear in n",
    ),
    "TOPSS-28": Claim(
        "table 2",
        "Kdb bulk load, ms: 52, 84, 196, 706, 1699, 6976, 15658, 69811",
        "S: list faster up to 100,000, DBMS from 500,000 on; DBMS/bit between 1.5 and 10",
    ),
    "TOPSS-29": Claim(
        "5.1.2, figure 4",
        "a DBMS takes 4400 KB at 1,000 (bits 122 KB) and 1 GB at 5,000,000 (bits 248 MB)",
        "C: 5 M * 400 / 8 + 2 * 5 M bytes = 247.96 MiB; R: DBMS/bit >= 2 at 5 M and >= 10 at 1,000",
    ),
    "TOPSS-30": Claim(
        "4.1",
        "sequential search scans n * mean n_P rows and repeats comparisons",
        "C: rows = sum of n_P, each compared",
    ),
    "TOPSS-31": Claim(
        "4.2",
        "grouping evaluates each distinct predicate once; its associations are as many as rows",
        "C: rows of subs_preds = rows of sequential search; m predicates are evaluated",
    ),
    "TOPSS-32": Claim(
        "4",
        "both queries return the matching ids",
        "E: equal to brute force; errata: `sub` for `subs`, two operators missing, repeated predicates",
    ),
    "TOPSS-33": Claim(
        "2",
        "attribute names are unique, an event may omit some, values are those of the domain",
        "E: an omitted attribute satisfies nothing; a value of another domain is refused",
    ),
    "TOPSS-34": Claim(
        "6",
        "in the millions, table predicates with list subscriptions match fastest",
        "S: T4 from 1 M on: best sum of both phases of {table, list} with {byte, bit, list}, and of DBMS",
    ),
}
CLAIMS: dict[str, Claim] = {**_PREDICATES, **_SUBSCRIPTIONS, **_LOADING}
