"""What RIABOV claims (Riabov, Liu, Wolf, Yu, Zhang: New algorithms for content-based publication-subscription
systems, ICDCS 2003), in our words, and when we say that a claim holds.

A condition begins with its kind: E exact, decided without a clock; C counted, the same on every machine; R a
ratio of times or amounts, both sides in one run; S the shape of a curve; N nothing to decide. Thresholds are
ours, about half of the paper's effect.
"""

from __future__ import annotations

from pubsub_cluster.benchmarks.reproductions.outcome import Claim

CLAIMS: dict[str, Claim] = {
    "RIABOV-01": Claim(
        "3",
        "a point query of an S-tree returns exactly the rectangles that hold the event",
        "E: equal to brute force, points on faces included; rectangles open below, closed above",
    ),
    "RIABOV-02": Claim(
        "3",
        "each child of a node of the binary tree has at least p of its rectangles",
        "E: at every inner node; where no whole number fits (p = 1/2, odd number) the middle is taken",
    ),
    "RIABOV-03": Claim("3, 3.2", "no node has more than M children", "E: at every node"),
    "RIABOV-04": Claim(
        "3, 3.2",
        "only penultimate and leaf nodes have fewer than M children",
        "E: at every node, without the paper's bottom-up step, which contradicts it",
    ),
    "RIABOV-05": Claim(
        "3.1",
        "a split looks at (1 - 2p) * N_A / M places",
        "C: floor((1 - 2p) * N_A / M) + 1 of them, one more or less",
    ),
    "RIABOV-06": Claim(
        "figure 1", "the sweep with p = 1/4 and M = 2", "E: eight rectangles give the places 2, 4 and 6"
    ),
    "RIABOV-07": Claim(
        "3",
        "a small p lets the tree be unbalanced, p near 1/2 balances it",
        "S: greatest depth / log_M(N) does not grow with p = 0.1, 0.3, 0.5, N >= 10,000",
    ),
    "RIABOV-08": Claim(
        "3.2",
        "compression leaves leaf nodes as they are and collapses the child with most rectangles",
        "E: the same leaf nodes before and after",
    ),
    "RIABOV-09": Claim(
        "3",
        "pruning makes point queries efficient; they scale in the number of rectangles and dimensions",
        "C: at most 0.2 of the nodes are visited at 1,000,000, N = 4, about 10 matches an event; S: slope of "
        "time without output < 1 in the number of rectangles",
    ),
    "RIABOV-10": Claim(
        "1",
        "several ranges of one attribute become several rectangles",
        "E: the same subscribers, each once",
    ),
    "RIABOV-11": Claim(
        "4, A.1",
        "all who are interested in an event of S_q are in group M_q",
        "E: for every event, clustering and number of groups",
    ),
    "RIABOV-12": Claim(
        "4",
        "S_0: unicast; nobody interested: nothing; share of the group below t: unicast; else multicast",
        "E: as stated; t = 0 is pure multicast. The share is of M_q, not of S_q as printed",
    ),
    "RIABOV-13": Claim(
        "5.2, figure 6",
        "a threshold of about 15 % is consistently best",
        "S: improvement at 15 % within 2 points of the best threshold in >= 80 % of the (clustering, modes, "
        "groups) cases, and never more than 1 point below that of t = 0",
    ),
    "RIABOV-14": Claim(
        "5.2, figure 6",
        "Forgy k-means is best in most cases",
        "S: at t = 15 % no worse than pairwise and spanning tree in more than half of the cases",
    ),
    "RIABOV-15": Claim(
        "5.2",
        "the threshold gains much for Forgy k-means, 9 modes, 11 groups",
        "R: improvement(15 %) - improvement(0 %) >= 5 points, mean of >= 10 seeds",
    ),
    "RIABOV-16": Claim(
        "5.2",
        "unicast improves by 0 %, a group of exactly those interested by 100 %",
        "E: so, and nothing above 100 %",
    ),
    "RIABOV-17": Claim(
        "5.2",
        "ideal groups would be very many",
        "C: distinct interested sets <= (2k + 1)^N for k rectangles, growing with k",
    ),
    "RIABOV-18": Claim(
        "5.2",
        "the state of dense mode is proportional to the numbers of publishers and groups",
        "C: entries of routers linear in publishers * groups (R^2 >= 0.95)",
    ),
    "RIABOV-19": Claim(
        "5.2, A.2",
        "Forgy k-means takes the least time",
        "R: t(Forgy) < t(pairwise), 200 cells; the spanning tree's is reported only, since A.3 praises it",
    ),
    "RIABOV-20": Claim(
        "A.3",
        "the spanning tree is worst in quality and much faster than pairwise grouping",
        "R: t(spanning tree) / t(pairwise) <= 0.5; S: lowest improvement in more than half of the cases",
    ),
    "RIABOV-21": Claim(
        "A.2",
        "k-means comes to a local optimum; its iterations are limited",
        "E: it stops when membership is stable, or at the limit (100, ours)",
    ),
    "RIABOV-22": Claim("A.2", "a grid of at most C^N cells", "E: so, and all rectangles lie in it"),
    "RIABOV-23": Claim(
        "A.2",
        "the recursion for EW gives the expected number of wasted messages",
        "E: the corrected recursion equals sum p(c) * #(l(G) \\ l(c)) / sum p(c); the printed one does not",
    ),
    "RIABOV-24": Claim(
        "5",
        "600 nodes: 3 transit blocks of 5 nodes with 2 stubs of 20; 40, 30 and 30 % of the subscriptions",
        "E: 600 stub nodes and 15 transit nodes by these means; shares within 4 standard errors",
    ),
    "RIABOV-25": Claim(
        "5, table",
        "the distributions of the subscriptions",
        "E: frequencies within 4 standard errors; two-sided intervals: 0.65 of quotes, 0.45 of volumes",
    ),
    "RIABOV-26": Claim(
        "5", "the mixtures of the publications", "E: first and second moments within 4 standard errors"
    ),
    "RIABOV-27": Claim(
        "5.1, figures 4, 5",
        "prices are about normal, trades and amounts fall like a Zipf or Pareto law",
        "N: the data of the New York Stock Exchange are not available; the generator's shapes are shown",
    ),
}
