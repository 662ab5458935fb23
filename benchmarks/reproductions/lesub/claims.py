"""What LESUB claims, in our words, and when we say that a claim holds; see `outcome.Claim`.

The text that we have of the paper has lost every digit and most symbols, so its claims are words and the
sizes are ours (`benchmarks.workloads.lesub`).
"""

from __future__ import annotations

from pubsub_cluster.benchmarks.reproductions.outcome import Claim

CLAIMS: dict[str, Claim] = {
    "LESUB-01": Claim(
        "algorithms",
        "eight matchers find one result: naive, fair predicate, Gough, equality preferred, quarantining, "
        "Hanson, Aguilera, Neon",
        "E: all equal brute force on LESUB, T4 and W0, small",
    ),
    "LESUB-02": Claim(
        "naive algorithm",
        "in the worst case every predicate of every subscription is evaluated, as often as it appears",
        "C: evaluations <= predicates of all subscriptions, for each event; it stops at the first false one",
    ),
    "LESUB-03": Claim(
        "fair predicate",
        "each distinct predicate is stored and evaluated once; comparisons equal subscriptions, and "
        "additions and comparisons are the main cost",
        "C: additions are the subscriptions of the satisfied predicates, comparisons the subscriptions, "
        "per event; both take more than half the time at the largest size",
    ),
    "LESUB-04": Claim(
        "fair predicate",
        "satisfied equalities are found in constant (hash) or logarithmic time (search) per attribute, "
        "others in logarithmic time",
        "C: probes <= attributes of the event x (log2 n + 1) per comparison, n its predicates",
    ),
    "LESUB-05": Claim(
        "fair predicate",
        "one predicate's truth settles others: price < 10 settles price < 20 (the constants are ours)",
        "E: the satisfied predicates of an attribute and comparison are a prefix or suffix of the sorted "
        "constants",
    ),
    "LESUB-06": Claim(
        "fair predicate",
        "insertion and removal are incremental",
        "E: the structure after insertion and removal equals that before; C: only the subscription's own "
        "predicates are touched",
    ),
    "LESUB-07": Claim(
        "Gough",
        "an event follows one path from the root to a leaf, a level per attribute, a logarithmic search "
        "each: sub-linear",
        "C: levels visited <= attributes, comparisons <= attributes x log2 of the subscriptions; S: "
        "log-log slope of time in subscriptions < 0.3",
    ),
    "LESUB-08": Claim(
        "Gough",
        "fastest, but its space explodes; it is rebuilt rather than maintained",
        "S: nodes grow faster than linearly in subscriptions, or exponentially with optional attributes; "
        "R: t(Gough) < t(fair); insertion is a rebuild",
    ),
    "LESUB-09": Claim(
        "Aguilera",
        "several paths because of don't-care edges; less space and more time than Gough; space about "
        "subscriptions x attributes (equality only)",
        "C: nodes <= subscriptions x attributes + 1; nodes(Aguilera) < nodes(Gough); paths >= 1 (dead "
        "ends count)",
    ),
    "LESUB-10": Claim(
        "Aguilera",
        "expected time is sub-linear in subscriptions, equality only (the formula is garbled)",
        "S: log-log slope of visited nodes < 0.95",
    ),
    "LESUB-11": Claim(
        "Aguilera",
        "nonequality predicates make it less efficient: more nodes, more levels",
        "S: nodes and visited nodes grow with the share of nonequality predicates, 0 to 0.5",
    ),
    "LESUB-12": Claim(
        "Hanson",
        "the most selective predicates are searched first, then the naive algorithm does the rest",
        "C: evaluations in the second phase <= candidates x (mean predicates - 1); a search takes log2 n "
        "and the output",
    ),
    "LESUB-13": Claim(
        "Hanson",
        "without knowledge of selectivity performance can be poor",
        "R: t(least selective predicate indexed) / t(most selective) >= 3",
    ),
    "LESUB-14": Claim(
        "Hanson",
        "an update of the balanced tree takes poly-logarithmic time (the exponent is lost)",
        "S: log-log slope of insertion time in the number of intervals, 1 k to 1 M, < 0.3",
    ),
    "LESUB-15": Claim(
        "Neon",
        "tables of predicates, each stored as often as it appears; extends to attribute against attribute",
        "E: results; C: rows equal the predicates of all subscriptions; only operations of the event's "
        "type are read",
    ),
    "LESUB-16": Claim(
        "equality preferred",
        "fewer additions and comparisons than fair predicate, since equalities are not counted",
        "C: comparisons = partly satisfied + nonequality subscriptions; additions count nonequality "
        "predicates only",
    ),
    "LESUB-17": Claim(
        "equality preferred",
        "one cluster per equality schema; an equality is looked up once per relevant cluster",
        "C: look-ups of an event = schemas contained in the event's",
    ),
    "LESUB-18": Claim(
        "equality preferred",
        "its maintenance costs more than fair predicate's and less than Gough's",
        "S: insertion time fair <= equality preferred < Gough",
    ),
    "LESUB-19": Claim(
        "nonequality quarantining",
        "nonequality predicates of partly satisfied subscriptions are checked directly; only "
        "subscriptions without equality are counted",
        "C: comparisons = nonequality subscriptions; checks <= nonequality predicates of the partly "
        "satisfied",
    ),
    "LESUB-20": Claim(
        "trade-off",
        "naive evaluates most, fair predicate stores least, Gough stores most; the two equality "
        "algorithms lie between",
        "S: bytes fair < equality preferred, quarantining < Gough; evaluations of naive > all others",
    ),
    "LESUB-21": Claim(
        "experiments",
        "the equality algorithms beat fair predicate, and quarantining is best",
        "S: t(quarantining) < t(equality preferred) < t(fair) at the largest number of subscriptions; R: "
        "fair / quarantining >= 2",
    ),
    "LESUB-22": Claim(
        "experiments",
        "where equalities select little, equality preferred can be better than quarantining",
        "S: t(equality preferred) < t(quarantining) for some size of the equality domains, the reverse at"
        " large ones",
    ),
    "LESUB-23": Claim(
        "experiments",
        "naive is off the scale (the factor is lost)",
        "R: naive / quarantining >= 20 at the largest number of subscriptions",
    ),
    "LESUB-24": Claim(
        "experiments",
        "the lower the ratio of nonequality predicates the faster, for all three",
        "S: time grows with the ratio for each algorithm; C: satisfied predicates per event grow",
    ),
    "LESUB-25": Claim(
        "experiments",
        "without nonequality predicates the two equality algorithms are one",
        "R: ratio of their times 0.9 to 1.1; C: identical counters",
    ),
    "LESUB-26": Claim(
        "experiments",
        "equality only: a threshold is reached early, then time grows slowly, logarithmic in look",
        "C: the schemas probed reach 95 % of all at few subscriptions; S: beyond, t(10 n) / t(n) <= 1.5 "
        "without output",
    ),
    "LESUB-27": Claim(
        "experiments",
        "execution time less processing time grows slightly with subscriptions, because of more matches",
        "S: communication between two processes is linear in matches (R^2 >= 0.9)",
    ),
    "LESUB-28": Claim(
        "experiments",
        "insertion into quarantining takes about as long as into equality preferred; fair predicate is "
        "faster",
        "R: quarantining / equality preferred 0.7 to 1.4; fair / quarantining < 1",
    ),
    "LESUB-29": Claim(
        "outlook",
        "parallel: clusters by attribute and operator whose counts are added, equality clusters dealt out",
        "E: the same result; C: work per worker at most 1.3 times the mean, 1 to 4 workers",
    ),
    "LESUB-30": Claim(
        "outlook",
        "several event types: names that types share get the type as a prefix",
        "E: matches equal those of separate matchers per type",
    ),
    "LESUB-31": Claim(
        "event model",
        "an event instance must be consistent with the view of its types; the furniture example",
        "E: the event of both types with price, quantity, period and category is valid; without the "
        "category it is refused, and told so by name",
    ),
    "LESUB-32": Claim(
        "schema modification rules",
        "four rules extend the schema for everybody, without conflict or inconsistency; redundancy at most",
        "E: through random sequences of rules every event stays valid; a new mandatory attribute, or one "
        "that the type has, is refused; domains may repeat",
    ),
    "LESUB-33": Claim(
        "subscription language",
        "event_type contains furniture and category under dining table describes events on dining tables",
        "E: it matches dining tables and below, not bedroom tables; without the attribute nothing matches",
    ),
}
