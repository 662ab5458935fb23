"""What HTREE claims (Qian, Cao, Zhu, Li, Wang: H-Tree: an efficient index structure for event matching in
content-based publish/subscribe systems, IEEE TPDS 2015), in our words, and when we say that a claim holds.

A condition begins with its kind: E exact, decided without a clock; C counted, the same on every machine; R a
ratio of times or amounts, both sides in one run; S the shape of a curve. Thresholds are ours, about half of
the paper's effect. F = (1 - r + 2r/c)^l, with r = k/m, is the share of the subscriptions that an H-Tree
compares.
"""

from __future__ import annotations

from pubsub_cluster.benchmarks.reproductions.outcome import Claim

CLAIMS: dict[str, Claim] = {
    "HTREE-01": Claim(
        "3.1, figure 2, table 1",
        "ten subscriptions and their buckets; s3 has the cells 2 and 0 and is in b8",
        "E: b0 {s0, s2}, b2 {s1, s5}, b5 {s4}, b6 {s6}, b8 {s3, s9}, b9 {s8}, b10 {s7}",
    ),
    "HTREE-02": Claim(
        "3.1, figure 2",
        "event (0.24, 0.82) has the cells {0, 3} and {2, 3}, the buckets b2, b3, b14, b15 and the result s1",
        "E: so; of the candidates s1 and s5, s5 fails on a1",
    ),
    "HTREE-03": Claim(
        "3.3, figure 3",
        "a range no wider than a segment lies wholly in the cell of its nearest centre; a value in two "
        "cells at most",
        "E: containment, and 2 or 3 cells per attribute find every match; equal distance, not ruled: "
        "lower cell",
    ),
    "HTREE-04": Claim(
        "3.3",
        "c overlapping segments give c - 1 cells and one for no constraint, c^l buckets; 4, 3 and 16",
        "E: so, with c <= floor(1/W)",
    ),
    "HTREE-05": Claim(
        "3.3",
        "cells that do not overlap need almost six times the buckets (W = 0.2, l = 8) and up to 2^l copies",
        "E: (5/4)^8 = 5.96; with the cell for no constraint on both sides (6/5)^8 = 4.30 (erratum). C: "
        "copies "
        "<= 2^l against 1",
    ),
    "HTREE-06": Claim(
        "3.4",
        "at least (c - 3)/c are filtered per level, 40 percent at c = 5",
        "C: share kept per level <= 3/c; 2/c on average",
    ),
    "HTREE-07": Claim(
        "3.5, 4.2",
        "filtration f = (3/c)^l, 0.00039 at c = l = 8",
        "E: 0.000391 (printed as 0.39 %: erratum, 0.039 %). C: measured share = F within 20 %; f is far "
        "from it",
    ),
    "HTREE-08": Claim(
        "3.5",
        "candidates fall exponentially with l, memory grows as c^l",
        "C: log(candidates) linear in l, R^2 >= 0.99; buckets = c^l; l = 1 to 8",
    ),
    "HTREE-09": Claim(
        "3.5, (6) to (8)",
        "the best c for weights alpha and beta over [L, R]",
        "E: (8) is the grid minimum of (6) and equals sqrt(LR)(alpha/beta)^(1/(2l)): 6.325, 7.071, "
        "6.669; the "
        '"3/l" of (6) is 3/L',
    ),
    "HTREE-10": Claim(
        "5.2.1, figure 4",
        "matching time is linear in n, to 5 million",
        "S: linear fit R^2 >= 0.95 for Simple, Tama and H-Tree, which has a constant part",
    ),
    "HTREE-11": Claim("figure 4", "H-Tree is 12 times faster than Tama at 5 million", "R: >= 6, HT-n"),
    "HTREE-12": Claim(
        "figures 4, 10",
        "H-Tree fluctuates least: deviations 0.265, 0.692, 0.164 (Simple, Tama, H-Tree) at 5 million",
        "S: sd(H-Tree) < sd(Simple) < sd(Tama) over the events; sd / mean is reported too",
    ),
    "HTREE-13": Claim(
        "5.2.2, figure 5",
        "skewed values slow H-Tree before they are converted",
        "R: t(normal) and t(Pareto) > t(uniform), not converted; with even events F is the same for all",
    ),
    "HTREE-14": Claim(
        "figure 5",
        "converting to uniform saves 12 percent for normal, 25 percent for Pareto values",
        "R: t(converted) / t(raw) <= 0.94 and <= 0.9; C: candidates 0.855 and 0.868, buckets 855 and "
        "1,362, ours "
        "within 5 and 10 %. Pareto is read as x_m = 0.5, alpha = 2, above 1 clipped; events are "
        "converted too",
    ),
    "HTREE-15": Claim(
        "3.3",
        "the integral transform gives even values and its cost is negligible",
        "E: Kolmogorov and Smirnov's test of F(X), and equal matches. R: conversion / matching <= 0.05",
    ),
    "HTREE-16": Claim(
        "5.2.3, figure 6",
        "H-Tree is almost 30 times faster than Tama on average over k",
        "R: mean over k >= 15; n = 1 million, m = 2k, k not listed: 10 to 100 here",
    ),
    "HTREE-17": Claim(
        "figure 6",
        "Simple and Tama degrade with k",
        "S: t(Tama) grows with k, log-log slope >= 0.5; Simple stops at the first failure: reported",
    ),
    "HTREE-18": Claim(
        "figure 7",
        "at many constraints Tama is near Simple, and nearly all subscriptions are partial matches",
        "R: t(Tama) / t(Simple) within 0.5 to 2 at k = 90; C: >= 99 % have a satisfied constraint at k >= 50",
    ),
    "HTREE-19": Claim(
        "figure 7",
        "H-Tree improves with RCA = k/m, from 0.1 to 0.9",
        "S: t falls monotonically; R: t(0.1) / t(0.9) >= 10. C: F = 0.536 and 0.000124",
    ),
    "HTREE-20": Claim(
        "figure 7",
        "its fluctuation falls with RCA, from 0.078 to 0.005",
        "R: sd(0.1) / sd(0.9) >= 5; S: monotone",
    ),
    "HTREE-21": Claim(
        "5.2.4, figure 8",
        "each further indexed attribute saves at least 29 percent, 35 on average",
        "R: every step <= 0.8 at 5 million, mean step <= 0.72, l = 4 to 8; C: candidates 0.625 per step",
    ),
    "HTREE-22": Claim(
        "figure 8",
        "H-Tree is almost 5 times faster than Tama at l = 4, 35 times at l = 8, 5 million",
        "R: >= 2.5 and >= 17; the ratio grows >= 3.5-fold",
    ),
    "HTREE-23": Claim(
        "5.2.4",
        "100 to 500 subscriptions per bucket suffice",
        "S: from the l with so many, one more attribute gains less than 30 %. At 5 million that is l = 5 "
        "(153); the "
        "paper's l = 8 has 0.3, and still gains 29 %",
    ),
    "HTREE-24": Claim(
        "5.2.5, figure 9",
        "more cells help less and less: 45 percent from c = 4 to 5, 20 percent from 7 to 8",
        "R: first step between 0.4 and 0.7, last between 0.7 and 0.95, at 5 million; C: candidates 0.576 "
        "and 0.798",
    ),
    "HTREE-25": Claim(
        "figure 9",
        "H-Tree is 7 times faster than Tama at c = 4, almost 35 times at c = 8",
        "R: >= 3.5 and >= 17, at 5 million",
    ),
    "HTREE-26": Claim(
        "5.2.5",
        "at least 4 segments; 5 to 10 cells are enough",
        "S: t(10) / t(8) >= 0.6; E: c < 4 is refused, since c = 3 filters nothing by (5)",
    ),
    "HTREE-27": Claim(
        "5.2.6, figure 10",
        "Simple and H-Tree do not depend on the width below the bound, Tama is linear in it",
        "S: max / min of H-Tree <= 1.3, of Simple <= 1.2; Tama linear, R^2 >= 0.9, slope > 0; n = 1 million",
    ),
    "HTREE-28": Claim(
        "figure 10",
        "at width 0.1 H-Tree is 44 times faster than Simple, 34 times than Tama",
        "R: >= 22 and >= 17, n = 1 million",
    ),
    "HTREE-29": Claim(
        "5.2.7, figure 11",
        "with attributes chosen by Zipf's law, a = 1.0, H-Tree is up to 2,190 times faster than Tama at "
        "5 million",
        "R: >= 200, and > 10 times the ratio at even choice; C: F with each attribute's own r",
    ),
    "HTREE-30": Claim("figure 11", "its fluctuation falls with a", "S: deviation monotone down in a"),
    "HTREE-31": Claim(
        "abstract, 1",
        "three orders of magnitude when subscriptions and constraints are very many",
        "R: at least one setting with ratio >= 500, which is named",
    ),
    "HTREE-32": Claim(
        "5.3.1, figure 12",
        "insertion of narrow subscriptions: H-Tree less than 10 percent above Simple, Tama almost two times",
        "R: H-Tree / Simple <= 1.15; Tama / Simple between 1.4 and 4; Simple stores the same content; "
        "ten runs",
    ),
    "HTREE-33": Claim(
        "figure 13",
        "random widths: insertion 60 percent above Simple at 1 million, Tama's fluctuates greatly, "
        "matching 200 "
        "percent faster than Simple",
        "R: insertion <= 2.0; matching Simple / H-Tree >= 2; sd / mean of insertion largest for Tama",
    ),
    "HTREE-34": Claim(
        "5.3.2, figure 14",
        "deletion time falls with l; Tama's is costly",
        "S: monotone down in l; below Tama from some l on. C: numbers compared per deletion",
    ),
    "HTREE-35": Claim(
        "4",
        "build O(ln), match O(fn), insert O(l), delete O(n/c^l), space O(n); wide ones times s",
        "C: cells found = l per insertion; numbers compared <= bucket size. n/c^l needs even buckets: at "
        "r = 0.3, "
        "c = 10 about 0.5 is left per level, not 0.1",
    ),
    "HTREE-36": Claim(
        "5.3.3, table 3",
        "bytes of a constraint: 16, 52, 16; of a subscription of ten: 164, 526, 168 (Simple, Tama, H-Tree)",
        "E: 10*16+4, 10*52+6, 164+4; heads of buckets are left out: 134 MB at 8 bytes, c = l = 8",
    ),
    "HTREE-37": Claim(
        "figure 15",
        "Simple takes least memory, H-Tree little more, Tama most",
        "S: Simple < H-Tree < Tama, H-Tree / Simple <= 1.1 without heads; with them only from 4.7 million on",
    ),
    "HTREE-38": Claim(
        "4, (9)",
        "a wide subscription is split into s = ceil(wc)^(lu/(mk))",
        "C: mean copies. Erratum: u/m of the indexed attributes are wide, so that the exponent is lu/m; "
        "as printed "
        "it is 1.25 instead of 4^8 at m = k = u = 50, l = 8, w = 0.5, c = 8. Pieces per level within 20 %",
    ),
    "HTREE-39": Claim(
        "3.2", "the order of indexed attributes has no effect", "E: same candidates and matches per event"
    ),
    "HTREE-40": Claim(
        "3.2",
        "index popular and narrow attributes; popularity is cheap to count",
        "C: candidates(popular) <= candidates(random) <= candidates(rare)",
    ),
    "HTREE-41": Claim(
        "3.2",
        "W should be at least twice the width of ranges",
        "E: contradicted by the experiments (w = 0.1 at c = 8 has W = 0.125); it takes only w <= 1/c "
        "(HTREE-03)",
    ),
    "HTREE-42": Claim(
        "3.4",
        "matched subscriptions are returned early",
        "R: time to the first match / all, H-Tree <= Tama, HT-n, 1 million",
    ),
}
