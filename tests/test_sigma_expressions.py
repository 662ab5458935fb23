"""Every modifier, escape and trap of the contract on small rules: by hand, by the oracle, by the importer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sigma.rule", reason="pySigma is not installed")

from sigma_cases import body_of, importer_says, loaded, refusal
from sigma_oracle import Oracle

from pubsub_cluster.language.expression import And, Atom, Operator


def one(test: str) -> str:
    """A detection of one map."""
    return f"sel:\n    {test}\ncondition: sel"


# Detection, events for which it holds, events for which it does not. Raw strings: YAML's plain and quoted
# scalars keep backslashes, so these are the rule's own.
CASES: dict[str, tuple[str, list[dict[str, Any]], list[dict[str, Any]]]] = {
    "text": (one("a: Whoami.exe"), [{"a": "whoami.EXE"}], [{"a": "whoami.exe "}, {"A": "whoami.exe"}, {}]),
    "text on an integer": (one("a: '3'"), [{"a": 3}, {"a": "3"}], [{"a": 3.0}, {"a": 33}]),
    "text on a float": (one("a: '3.0'"), [{"a": 3.0}, {"a": "3.0"}], [{"a": 3}]),
    "text on a boolean": (one("a: TRUE_"), [{"a": "true_"}], [{"a": True}]),
    "contains on an integer": (one("a|contains: '68'"), [{"a": 4688}], [{"a": 4699}]),
    "contains on a large integer": (one("a|startswith: '1844674'"), [{"a": 2**64}], [{"a": -(2**64)}]),
    "star": (one("a: 'c:*\\x.exe'"), [{"a": r"C:\d\x.exe"}, {"a": r"c:\x.exe"}], [{"a": r"c:x.exe"}]),
    "star over lines": (one("a: 'b*e'"), [{"a": "b\r\n\ne"}], [{"a": "b\r\n\nf"}]),
    "question mark": (one("a: 'x?z'"), [{"a": "xyz"}, {"a": "x\nz"}], [{"a": "xz"}, {"a": "xyyz"}]),
    "empty text": (one("a: ''"), [{"a": ""}], [{}, {"a": None}, {"a": []}, {"a": " "}]),
    "star alone": (
        one("a: '*'"),
        [{"a": ""}, {"a": "x"}, {"a": 0}, {"a": False}],
        [{}, {"a": None}, {"a": []}],
    ),
    "contains nothing": (one("a|contains: ''"), [{"a": ""}, {"a": 5}], [{}]),
    "number": (one("a: 3"), [{"a": 3}, {"a": "3"}, {"a": 3.0}], [{"a": "03"}, {"a": "3.0"}, {"a": 33}, {}]),
    "negative number": (one("a: -5"), [{"a": -5}, {"a": "-5"}], [{"a": 5}]),
    "fraction": (one("a: 2.5"), [{"a": 2.5}, {"a": "2.5"}], [{"a": "2.50"}, {"a": 2}]),
    "number of leading zeros": (one("a: 00000429"), [{"a": "00000429"}], [{"a": 429}, {"a": "429"}]),
    "octal number": (one("a: 00000427"), [{"a": 279}], [{"a": "00000427"}]),
    "true": (one("a: true"), [{"a": True}, {"a": "True"}, {"a": "true"}], [{"a": 1}, {"a": False}, {}]),
    "null": (one("a: null"), [{}, {"a": None}, {"a": []}, {"a": [None]}], [{"a": ""}, {"a": 0}]),
    "list": (one("a: [x, 3, null, '']"), [{"a": "X"}, {"a": "3"}, {}, {"a": ""}], [{"a": "y"}]),
    "several values": (one("a: x"), [{"a": ["w", "X"]}], [{"a": ["xx", "w"]}]),
    "all on several values": (
        one("a|contains|all: [x, y]"),
        [{"a": "yx"}, {"a": ["x", "y"]}],
        [{"a": ["x", "z"]}, {}],
    ),
    "two tests on several values": (
        one("a|startswith: x\n    a|endswith: y"),
        [{"a": ["xz", "zy"]}],
        [{"a": "xz"}],
    ),
    "nested objects": (
        one("a.b: x"),
        [{"a": {"b": "x"}}, {"a": [{"b": "x"}, {"b": "y"}]}, {"a.b": "x"}],
        [{"a": "x"}],
    ),
    "startswith": (one("a|startswith: 'p\\'"), [{"a": r"P\q"}, {"a": "p\\"}], [{"a": "pq"}, {"a": "xp\\"}]),
    "endswith": (one(r"a|endswith: '\x.exe'"), [{"a": r"c:\X.EXE"}], [{"a": r"c:\x.exe "}, {"a": "yx.exe"}]),
    "contains with wildcards": (one("a|contains: 'x*z'"), [{"a": "-xyz-"}], [{"a": "zx"}]),
    "endswith with a wildcard": (one("a|endswith: '?z'"), [{"a": "xyz"}, {"a": "yz"}], [{"a": "z"}]),
    # Escapes
    "escaped star": (one(r"a: 'x\*y'"), [{"a": "X*y"}], [{"a": "xzy"}, {"a": "x\\*y"}]),
    "escaped question mark": (one(r"a|contains: 'x\?'"), [{"a": "wx?"}], [{"a": "xy"}]),
    "two backslashes": (one(r"a: 'x\\y'"), [{"a": r"x\y"}], [{"a": r"x\\y"}]),
    "one backslash": (one(r"a: 'x\y'"), [{"a": r"x\y"}], [{"a": "xy"}]),
    "backslash and a wildcard": (
        one(r"a: 'x\\*'"),
        [{"a": r"x\yy"}, {"a": "x\\"}],
        [{"a": "x*"}, {"a": "xyy"}],
    ),
    "backslash and a star": (one(r"a: 'x\\\*'"), [{"a": r"x\*"}], [{"a": r"x\y"}, {"a": "x*"}]),
    "four backslashes": (one(r"a: '\\\\host'"), [{"a": r"\\host"}], [{"a": r"\host"}, {"a": r"\\\\host"}]),
    "contains that ends with a backslash": (
        one("a|contains: '\\x\\'"),
        [{"a": r"c:\x\y"}],
        [{"a": r"c:\x*"}],
    ),
    "literal of like after an escape": (
        one(r"a: '*\*?\\\\*'"),
        [{"a": r"_*y\\_"}],
        [{"a": r"_zy\\_"}, {"a": r"_*y\_"}],
    ),
    # Case
    "case of umlauts": (one("a|contains: ÄÖ"), [{"a": "xäö"}], [{"a": "xao"}]),
    "case one to one": (one("a: 'straße'"), [{"a": "STRAẞE"}, {"a": "Straße"}], [{"a": "STRASSE"}]),
    "final sigma": (one("a: 'Σ.Σ'"), [{"a": "\u03c3.\u03c2"}, {"a": "\u03c3.\u03c3"}], []),
    "no normalisation": (one("a: 'é'"), [{"a": "É"}], [{"a": "e\u0301"}]),
    "cased": (one("a|contains|cased: Ab"), [{"a": "xAb"}], [{"a": "xab"}, {"a": "XAB"}]),
    "cased whole": (one("a|cased: [Ab, 'C*']"), [{"a": "Ab"}, {"a": "Cx"}], [{"a": "ab"}, {"a": "cx"}]),
    # Regular expressions
    "re": (one(r"a|re: 'x\d+y'"), [{"a": "_x12y_"}], [{"a": "X12y"}, {"a": "xy"}, {}]),
    "re ignoring case": (one(r"a|re|i: 'X\d+Y'"), [{"a": "x1y"}], [{"a": "xay"}]),
    "re with a flag within": (one("a|re: '(?i)abc'"), [{"a": "ABC"}], [{"a": "ab"}]),
    "re and line breaks": (one("a|re: 'x.y'"), [{"a": "x y"}], [{"a": "x\ny"}]),
    "re with s": (one("a|re|s: 'x.y'"), [{"a": "x\ny"}], [{"a": "xy"}]),
    "re with m": (one("a|re|m: '^y$'"), [{"a": "x\ny\nz"}], [{"a": "x y"}]),
    "re without m": (one("a|re: '^y$'"), [{"a": "y"}, {"a": "y\n"}], [{"a": "x\ny"}, {"a": "y\n\n"}]),
    "re on an integer": (one("a|re: '^4[0-9]+$'"), [{"a": 4688}], [{"a": 688}]),
    "re with backslashes": (one(r"a|re: 'c:\\w\\.\*$'"), [{"a": r"c:\w\x*"}], [{"a": r"c:\w\x"}]),
    "re with spaces": (one(r"a|re: 'x\sy'"), [{"a": "x\vy"}, {"a": "x\u00a0y"}], [{"a": "x_y"}]),
    "re with letters": (
        one(r"a|re: '^\w{3}\W\S\D[\s\d]$'"),
        [{"a": "aé1-xé "}],
        [{"a": "a-1-xé "}, {"a": "aé1-xé_"}],
    ),
    "re with classes": (
        one(r"a|re: '^[^\]\s[:a]+x{,2}\Z'"),
        [{"a": "bxx"}, {"a": "b"}],
        [{"a": "a"}, {"a": "["}],
    ),
    "re with escapes": (
        one(r"a|re: '\u00e9\x41(?#comment)[\u00e8\b]'"),
        [{"a": "éAè"}, {"a": "éA\b"}],
        [{"a": "éA"}],
    ),
    # windash, base64offset
    "windash": (
        one("a|windash|contains: ' -a'"),
        [{"a": "x -a"}, {"a": "x /A"}, {"a": "x \u2013a"}, {"a": "x \u2014a"}, {"a": "x \u2015a"}],
        [{"a": "x a"}, {"a": "x +a"}, {"a": "x-a"}],
    ),
    "windash at each place": (
        one("a|windash|contains: ' -a -b'"),
        [{"a": "x /a -b"}, {"a": "x -a \u2015b"}],
        [{"a": "x -a _b"}],
    ),
    "windash between words": (
        one("a|windash|contains: '-a-b'"),
        [{"a": "/a-b"}],
        [{"a": "/a/b"}, {"a": "-a/b"}],
    ),
    "windash under all": (
        one("a|windash|contains|all: [' -x', ' -y']"),
        [{"a": "z /x -y"}, {"a": "z -y \u2013x"}],
        [{"a": "z /x"}, {"a": "z -y"}],
    ),
    "base64": (one("a|base64|contains: foobar"), [{"a": "_Zm9vYmFy_"}, {"a": "zm9vymfy"}], [{"a": "foobar"}]),
    "base64offset": (
        one("a|base64offset|contains: foobar"),
        [{"a": "Zm9vYmFy"}, {"a": "eGZvb2Jhcng="}, {"a": "eHhmb29iYXJ4"}],
        [{"a": "eHhmb28="}],
    ),
    "wide": (one("a|wide|base64offset|contains: ab"), [{"a": "YQBiA"}], [{"a": "YWI="}]),
    # Networks, comparisons, presence
    "cidr": (
        one("a|cidr: 10.1.0.0/16"),
        [{"a": "10.1.2.3"}, {"a": ["-", "10.1.0.0"]}],
        [
            {"a": "10.2.0.1"},
            {"a": "-"},
            {"a": ""},
            {"a": "::ffff:10.1.2.3"},
            {"a": "host"},
            {"a": 167837955},
            {},
        ],
    ),
    "cidr v6": (one("a|cidr: 'fe80::/10'"), [{"a": "FE80::1"}], [{"a": "::1"}, {"a": "254.128.0.1"}]),
    "lt": (
        one("a|lt: 10"),
        [{"a": 9}, {"a": "9"}, {"a": -3.5}, {"a": "09.75"}],
        [{"a": 10}, {"a": "10"}, {"a": "x"}, {}],
    ),
    "lte": (
        one("a|lte: 10"),
        [{"a": 10}, {"a": "10.0"}, {"a": "-99"}],
        [{"a": 11}, {"a": "10.01"}, {"a": ""}],
    ),
    "gt": (
        one("a|gt: -1.5"),
        [{"a": "-1.25"}, {"a": 0}, {"a": "7"}],
        [{"a": -1.5}, {"a": "-2"}, {"a": "0x7"}],
    ),
    "gte": (one("a|gte: 1000"), [{"a": "1000"}, {"a": 1e300}, {"a": 2**70}], [{"a": "999.99"}, {"a": True}]),
    "fieldref": (
        one("a|fieldref: b"),
        [{"a": "X", "b": "x"}, {"a": ["w", "É"], "b": "é"}, {"a": 3, "b": "3"}],
        [{"a": "x", "b": "y"}, {"a": "x"}, {"b": "x"}, {}, {"a": None, "b": None}],
    ),
    "exists": (one("a|exists: true"), [{"a": ""}, {"a": 0}], [{}, {"a": None}, {"a": []}]),
    "exists not": (one("a|exists: false"), [{}, {"a": None}], [{"a": ""}]),
    "neq": (one("a|neq: x"), [{"a": "y"}, {}], [{"a": "X"}, {"a": ["y", "x"]}]),
    # Keywords
    "keywords": (
        "keywords: [Mimi*tz, '4104', 7]\ncondition: keywords",
        [{"any": "-mimikatz-"}, {"n": 4104}, {"n": {"m": "41045"}}, {"n": [1, 71]}],
        [{"mimikatz": "x"}, {"n": 4114}],
    ),
    "keywords all": (
        "keywords:\n    '|all': [foo, bar]\ncondition: keywords",
        [{"a": "foobar"}, {"a": "Foo", "b": "BAR"}],
        [{"a": "foo"}, {"a": "fo", "b": "obar"}],
    ),
    "keywords re": ("keywords:\n    '|re': 'x[0-9]'\ncondition: keywords", [{"a": "x1"}], [{"a": "X1"}]),
    "keywords escaped": ("keywords: ['x\\*']\ncondition: keywords", [{"a": "wx*"}], [{"a": "wxy"}]),
    "keywords in a list of maps": (
        "sel:\n    - foo\n    - a: bar\ncondition: sel",
        [{"b": "foo!"}, {"a": "bar"}],
        [{"b": "bar"}],
    ),
    # Conditions
    "maps are ands": (one("a: x\n    b: y"), [{"a": "x", "b": "y"}], [{"a": "x"}, {"b": "y"}]),
    "lists of maps are ors": (
        "sel:\n    - a: x\n      b: y\n    - c: z\ncondition: sel",
        [{"c": "z"}],
        [{"a": "x"}],
    ),
    "not of missing": (
        "s:\n    a: x\nf:\n    b: y\ncondition: s and not f",
        [{"a": "x"}],
        [{"a": "x", "b": "Y"}],
    ),
    "precedence": (
        "p: {a: 1}\nq: {b: 1}\nr: {c: 1}\ncondition: p or not q and r",
        [{"a": 1, "b": 1}, {"c": 1}],
        [{}, {"b": 1, "c": 1}],
    ),
    "parentheses": (
        "p: {a: 1}\nq: {b: 1}\nr: {c: 1}\ncondition: not (p or q) and (r or not (p and q))",
        [{}, {"c": 1}],
        [{"a": 1}, {"b": 1, "c": 1}],
    ),
    "1 of": ("s_a: {a: 1}\ns_b: {b: 1}\nt: {c: 1}\ncondition: 1 of s_*", [{"a": 1}, {"b": 1}], [{"c": 1}]),
    "any of": ("s_a: {a: 1}\ns_b: {b: 1}\ncondition: any of s_*", [{"b": 1}], [{}]),
    "all of": (
        "s_a: {a: 1}\ns_b: {b: 1}\nt: {c: 1}\ncondition: all of s*",
        [{"a": 1, "b": 1}],
        [{"a": 1, "c": 1}],
    ),
    "star in the middle": (
        "x_a_y: {a: 1}\nx_b_z: {b: 1}\ncondition: 1 of *_a_*",
        [{"a": 1}],
        [{"b": 1}],
    ),
    "them without underscores": ("p: {a: 1}\n_q: {b: 1}\ncondition: 1 of them", [{"a": 1}], [{"b": 1}]),
    "underscores when asked for": ("p: {a: 1}\n_q: {b: 1}\ncondition: 1 of _*", [{"b": 1}], [{"a": 1}]),
    "not 1 of": (
        "s: {a: 1}\nf_a: {b: 1, c: 1}\nf_b: {d: 1}\ncondition: s and not 1 of f_*",
        [{"a": 1}, {"a": 1, "b": 1}],
        [{"a": 1, "b": 1, "c": 1}, {"a": 1, "d": 1}],
    ),
    "list of conditions": ("p: {a: 1}\nq: {b: 1}\ncondition: [p, q]", [{"a": 1}, {"b": 1}], [{"c": 1}]),
    # Aliases
    "Provider_Name": (
        one("Provider_Name: P"),
        [
            {"SourceName": "p"},
            {"Provider_Name": "P", "SourceName": "x"},
            {"Provider_Name": None, "SourceName": "p"},
        ],
        [{"Provider_Name": "x", "SourceName": "P"}],
    ),
    "Computer, Data": (
        one("Computer: c\n    Data|contains: d"),
        [{"Hostname": "C", "Message": "xdx"}],
        [{"Hostname": "c", "Data": "x", "Message": "d"}],
    ),
    "fields of 4688": (
        one(r"Image|endswith: '\x.exe'" + "\n    LogonId: 3\n    ParentImage|exists: false"),
        [{"Channel": "SECURITY", "EventID": "4688", "NewProcessName": r"c:\x.exe", "SubjectLogonId": "3"}],
        [
            {"Channel": "System", "EventID": 4688, "NewProcessName": r"c:\x.exe", "SubjectLogonId": "3"},
            {"Channel": "Security", "EventID": 4689, "NewProcessName": r"c:\x.exe", "SubjectLogonId": "3"},
        ],
    ),
    "null of an alias": (one("Computer: null"), [{}], [{"Hostname": "h"}]),
    "keywords know no aliases": ("keywords: [x]\ncondition: keywords", [{"Message": "x"}], [{"Data": "y"}]),
}


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str, tmp_path: Path) -> None:
    detection, yes, no = CASES[name]
    rule, oracle = loaded(detection, tmp_path), Oracle(body_of(detection))
    for expected, events in ((True, yes), (False, no)):
        for event in events:
            assert oracle.holds(event) is expected, f"the oracle on {event}"
            assert importer_says(rule, event) is expected, f"the importer on {event}: {rule.expression}"


SYSMON = "Microsoft-Windows-Sysmon/Operational"
SOURCES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "": ([{}, {"Channel": "x"}], []),
    "category: process_creation": (
        [{"Channel": SYSMON.upper(), "EventID": 1}, {"Channel": "security", "EventID": "4688"}],
        [{"Channel": SYSMON, "EventID": 3}, {"Channel": "System", "EventID": 1}, {"EventID": 1}, {}],
    ),
    "category: registry_event": (
        [{"Channel": SYSMON, "EventID": n} for n in (12, 13, 14)],
        [{"Channel": SYSMON, "EventID": 15}, {"Channel": "Security", "EventID": 4657}],
    ),
    "category: registry_add": (
        [{"Channel": SYSMON, "EventID": 12, "EventType": "createkey"}],
        [{"Channel": SYSMON, "EventID": 12}, {"Channel": SYSMON, "EventID": 12, "EventType": "DeleteKey"}],
    ),
    "category: registry_delete": (
        [{"Channel": SYSMON, "EventID": 12, "EventType": t} for t in ("DeleteKey", "DELETEVALUE")],
        [{"Channel": SYSMON, "EventID": 12}, {"Channel": SYSMON, "EventID": 12, "EventType": "CreateKey"}],
    ),
    "category: ps_script": (
        [
            {"Channel": "PowerShellCore/Operational", "EventID": 4104},
            {"Channel": "Microsoft-Windows-PowerShell/Operational", "EventID": "4104"},
        ],
        [{"Channel": "Windows PowerShell", "EventID": 4104}],
    ),
    "service: security": (
        [{"Channel": "Security"}, {"Channel": "security", "EventID": 1}],
        [{"Channel": "System"}],
    ),
    "service: applocker": (
        [{"Channel": "Microsoft-Windows-AppLocker/EXE and DLL"}],
        [{"Channel": "Microsoft-Windows-AppLocker/"}],
    ),
    "category: process_creation\nservice: sysmon": (
        [{"Channel": SYSMON, "EventID": 1}],
        [{"Channel": "Security", "EventID": 4688}],
    ),
    "service: system\ndefinition: whatever": ([{"Channel": "System"}], [{"Channel": "Security"}]),
}


@pytest.mark.parametrize("source", SOURCES)
def test_log_sources(source: str, tmp_path: Path) -> None:
    detection = "sel:\n    missing: null\ncondition: sel"
    rule, oracle = loaded(detection, tmp_path, source), Oracle(body_of(detection, source))
    for expected, events in zip((True, False), SOURCES[source], strict=True):
        for event in events:
            assert oracle.holds(event) is expected and importer_says(rule, event) is expected, event


@pytest.mark.parametrize(
    ("detection", "reason"),
    [
        (one("a|expand: '%users%'"), "placeholder"),
        (one("a|hour: 3"), "no counterpart"),
        (one("a|fieldref|startswith: b"), "as a whole"),
        (one("a|nonsense: b"), "Unknown modifier"),
        (one("a|re: '(x)\\1'"), "does not compile"),
        (one("a|re: '(?<=x)y'"), "does not compile"),
        (one("a|re: 'x('"), "invalid"),
        (one("a|re: 'x$y'"), "behind it"),
        (one("a|re: 'a(?m:^b)'"), "for a part"),
        (one("a|cidr: 10.0.0.1/8"), "Invalid CIDR"),
        (one("a|lt: x"), "incompatible"),
        (one("a: 9007199254740993"), "of this size"),
        (one("a|windash: '-a -b -c -d'"), "three dash"),
        (one("a: 2021-01-01"), "Unsupported type"),
        (one("a: .inf"), "Invalid number"),
        ("sel:\n    '|startswith': x\ncondition: sel", "no start or end"),
        ("sel:\n    - {a: 1}\n    - '|all': [x, null]\ncondition: sel", "no field"),
        ("sel: {a: 1}\ncondition: sel and", "Expected"),
        ("sel: {a: 1}\ncondition: sel and other", "not defined"),
        ("sel: {a: 1}\ncondition: 2 of sel*", "Expected"),
        ("sel: {a: 1}\ncondition: 1 of filter_*", "doesn't match any"),
        ("sel: {a: 1}\ncondition: sel | count() > 5", "pipe"),
        ("sel: {a: 1}", "condition"),
        ("sel: {}\ncondition: sel", "empty"),
        ("sel: {'': 1}\ncondition: 'not'", "Expected"),
    ],
)
def test_refusals(detection: str, reason: str, tmp_path: Path) -> None:
    assert reason in refusal(detection, tmp_path)


def test_the_tree_is_kept_and_lists_are_one_test(tmp_path: Path) -> None:
    rule = loaded(
        "s:\n    a: [x, 'y', 3]\n    b|endswith: ['1', '2']\n    c: z\ncondition: s",
        tmp_path,
        "service: system",
    )
    channel = Atom("Channel", Operator.EQ, "System", ignore_case=True)
    assert isinstance(rule.expression, And) and rule.expression.children[0] == channel
    assert "('x', 'y')" in str(rule.expression) and "(3, '3')" in str(rule.expression)
    assert rule.expression.children[3] == Atom("c", Operator.EQ, "z", ignore_case=True)
