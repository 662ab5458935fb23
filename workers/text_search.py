"""The text predicates of a set of subscriptions, searched together: by group, machine, and test.

A *group* is the predicates of one attribute, or those of any. Its needles that are folded make one machine,
the others another. What needles cannot decide alone comes back from the kernel as prompts, and is tested
here, once per distinct text of a batch; networks are looked up by the prefix of an address that is parsed
once.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Container, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pubsub_cluster.language.predicate import Predicate
from pubsub_cluster.language.text_match import TextTest, compile_text
from pubsub_cluster.language.text_needles import needles_of
from pubsub_cluster.shm.code_space import I4, I8, U1
from pubsub_cluster.shm.layout import frozen
from pubsub_cluster.workers.flat_batch import FlatBatch
from pubsub_cluster.workers.inputs import kernel_input
from pubsub_cluster.workers.kernels import bits as kernels
from pubsub_cluster.workers.kernels._jit import OK, Settled
from pubsub_cluster.workers.kernels.entries import KIND_TEXT
from pubsub_cluster.workers.names import NameTable
from pubsub_cluster.workers.text_cache import SEED, TextCache
from pubsub_cluster.workers.text_machine import MachineNeedles, build_machines, folding, told_stamps

KEPT_BYTES_MAX = 512
"""A longer text is searched again faster than it is looked up and kept."""

TESTED_KEPT_BYTES_MAX = 16_384
"""The same, where tests are made one by one."""

_PAIRS_MIN = 4_096
_find_bits = Settled(kernels.find_bits)


class TextRows(NamedTuple):
    """Texts to look at, as kernels want them.

    Attributes
    ----------
    event, group : int32[k]
        Group -1: only as a text of any attribute.
    start, stop : int64[k]
        In `data`, in bytes.
    data : uint8[]
    """

    event: I4
    group: I4
    start: I8
    stop: I8
    data: U1


class _Group:
    """The predicates of one attribute, or of any, while they are collected."""

    def __init__(self, is_any: bool) -> None:
        self.is_any = is_any
        self.always: list[int] = []
        self.folded = MachineNeedles(True, {})
        self.exact = MachineNeedles(False, {})
        self.tested: list[int] = []
        self.networks: list[tuple[int, str]] = []
        self.has_prompts = False

    def add(self, bit: int, predicate: Predicate) -> None:
        """Take in a predicate."""
        if predicate.text_operator == "in_network":
            constant = predicate.constants[0][1]
            assert isinstance(constant, bytes)
            self.networks.append((bit, constant.decode()))
            return
        needles, is_folded, is_decided = needles_of(predicate)
        if not needles:
            (self.always if is_decided else self.tested).append(bit)
        outputs = (self.folded if is_folded else self.exact).outputs
        for needle in needles:
            outputs.setdefault(needle, []).append(bit if is_decided else ~bit)
            self.has_prompts |= not is_decided

    def asked(self) -> Iterator[int]:
        """Give the bits whose predicates may have to be tested; some repeatedly."""
        yield from self.tested
        for machine in (self.folded, self.exact):
            for told in machine.outputs.values():
                yield from (~bit for bit in told if bit < 0)

    @property
    def is_slow(self) -> bool:
        """Whether something is tested on every text."""
        return bool(self.tested or self.networks)

    @property
    def known_max(self) -> int:
        """Size of the largest text that is kept."""
        return TESTED_KEPT_BYTES_MAX if self.is_slow or self.has_prompts else self.kept_max

    @property
    def kept_max(self) -> int:
        """Size of the largest text that is kept when nothing was tested."""
        return -1 if self.is_any else KEPT_BYTES_MAX

    @property
    def output_max(self) -> int:
        """Outputs that one text may give."""
        return len(self.always) + sum(
            len(told) for machine in (self.folded, self.exact) for told in machine.outputs.values()
        )


class Networks:
    """CIDR networks by version, length of the prefix, and prefix.

    Parameters
    ----------
    networks : sequence of (int, str)
        Bits and networks that parse.
    """

    def __init__(self, networks: Sequence[tuple[int, str]]) -> None:
        self._bits: dict[tuple[int, int], dict[int, list[int]]] = {}
        for bit, text in networks:
            network = ipaddress.ip_network(text, strict=False)
            host_bits = network.max_prefixlen - network.prefixlen
            table = self._bits.setdefault((network.version, host_bits), {})
            table.setdefault(int(network.network_address) >> host_bits, []).append(bit)

    def bits_of(self, text: str) -> list[int]:
        """Return the bits of the networks that an address lies in; none if the text is no address."""
        if not self._bits:
            return []
        version, number = _address(text)
        return [
            bit
            for (of_version, host_bits), table in self._bits.items()
            if of_version == version
            for bit in table.get(number >> host_bits, ())
        ]


def _address(text: str) -> tuple[int, int]:
    """Return version and number of an address; version 0 for any other text.

    The system's parser takes what `ipaddress` takes, but for the zone of an IPv6 address, in a tenth of the
    time; logs are full of addresses.
    """
    version, family = (6, socket.AF_INET6) if ":" in text else (4, socket.AF_INET)
    try:
        if "%" in text:
            return version, int(ipaddress.ip_address(text))
        return version, int.from_bytes(socket.inet_pton(family, text), "big")
    except (OSError, ValueError):  # a NUL, or what UTF-8 cannot write, is a ValueError
        return 0, 0


class TextSearch:
    """Searches texts for all predicates at once.

    Parameters
    ----------
    predicates : sequence of (int, Predicate)
        Bits and predicates of kind TEXT; at least one.

    Attributes
    ----------
    names : list of str
        Attributes that some predicate names.
    looks_at_all : bool
        Some predicate is on any attribute.
    """

    def __init__(self, predicates: Sequence[tuple[int, Predicate]]) -> None:
        groups: dict[str | None, _Group] = {}
        for bit, predicate in predicates:
            groups.setdefault(predicate.attribute, _Group(predicate.attribute is None)).add(bit, predicate)
        # What needles decide needs no test, and is most of what there is.
        asked = {bit for group in groups.values() for bit in group.asked()}
        self._predicates = {bit: predicate for bit, predicate in predicates if bit in asked}
        self._tests: dict[int, TextTest] = {}
        self.names = [name for name in groups if name is not None]
        self.looks_at_all = None in groups
        self._group_of = {name: number for number, name in enumerate(self.names)}
        ordered = [groups[name] for name in self.names] + ([groups[None]] if self.looks_at_all else [])
        self._any_group = len(ordered) - 1 if self.looks_at_all else kernels.NO_GROUP
        self._tested = [group.tested for group in ordered]
        self._networks = [Networks(group.networks) for group in ordered]
        self._groups, machines = _arrays_of(ordered)
        self._machines = build_machines(machines)
        self._told = told_stamps(self._machines)
        self._output_max = max(group.output_max for group in ordered)
        self._cache = TextCache()
        self._out = (np.empty(_PAIRS_MIN, np.int32), np.empty(_PAIRS_MIN, np.int32))
        self._numbers: tuple[NameTable | None, int, I4] = (None, 0, np.zeros(0, np.int32))

    @property
    def wanted_names(self) -> Container[str] | None:
        """The attributes to look at; None: all."""
        return None if self.looks_at_all else self._group_of

    def group_of(self, name: str) -> int:
        """Return the group of an attribute, -1 if no predicate names it."""
        return self._group_of.get(name, kernels.NO_GROUP)

    def find_flat(self, flat: FlatBatch, rows: tuple[I4, I8], names: NameTable) -> tuple[I4, I4]:
        """Return the bits of the texts of a batch of rows (`flat_batch.rows_of_flat`); as `find`."""
        group_of = self._groups_by_number(names)
        event, row = rows
        group = group_of[flat.name[row]]
        wanted = flat.kind[row] == KIND_TEXT
        if not self.looks_at_all:
            wanted &= group >= 0
        row = row[wanted]
        return self.find(
            TextRows(
                frozen(event[wanted]),
                frozen(group[wanted]),
                frozen(flat.whole[row]),
                frozen(flat.stop[row]),
                kernel_input(flat.data, np.uint8),
            )
        )

    def _groups_by_number(self, names: NameTable) -> I4:
        """Return the group of every number of a table of names."""
        table, epoch, group = self._numbers
        if table is not names or epoch != names.epoch or len(group) < names.count:
            numbers = names.numbers_of(self.names)
            group = np.full(2 * names.count, kernels.NO_GROUP, np.int32)
            group[numbers] = np.arange(len(self.names), dtype=np.int32)
            self._numbers = (names, names.epoch, group)
        return group

    def find(self, rows: TextRows) -> tuple[I4, I4]:
        """Return (event int32[], bit int32[]) for every bit that a text sets.

        Repeats are possible, and negative bits, which mean nothing.
        """
        row_count = len(rows.event)
        slow = (
            self._told,
            np.empty(2 * row_count, np.int32),
            np.empty(2 * row_count, np.int32),
            np.empty(4 * row_count, np.int64),
        )
        row, turn, count, slow_count = 0, 0, 0, 0
        while True:
            scalars = (row, turn, count, slow_count, self._any_group, SEED)
            status, row, turn, count, slow_count = _find_bits(
                rows, self._groups, self._machines, folding(), self._cache.table, scalars, self._out, slow
            )
            if status == OK:
                break
            if count + self._output_max > len(self._out[0]):
                room = np.empty(len(self._out[0]) + self._output_max, np.int32)
                self._out = (np.concatenate((self._out[0], room)), np.concatenate((self._out[1], room)))
            else:
                size = int(rows.stop[row] - rows.start[row])
                self._cache.make_room(1, size, self._output_max)
        event, bit = self._out[0][:count], self._out[1][:count]
        if slow_count == 0:
            return event.copy(), bit.copy()
        more = self._test(rows, (slow[1][:slow_count], slow[2][:slow_count], slow[3][: 2 * slow_count]), bit)
        return np.concatenate((event, more[0])), np.concatenate((bit, more[1]))

    def _test(self, rows: TextRows, slow: tuple[I4, I4, I8], bit: I4) -> tuple[I4, I4]:
        """Make the tests that were prompted, and those made on every text, once per distinct text."""
        data = rows.data.data
        found: dict[tuple[int, bytes], list[int]] = {}
        tested: dict[tuple[int, bytes], list[int]] = {}
        events: list[int] = []
        bits: list[int] = []
        span = slow[2].tolist()
        for number, (row, group) in enumerate(zip(slow[0].tolist(), slow[1].tolist(), strict=True)):
            key = group, bytes(data[rows.start[row] : rows.stop[row]])
            more = tested.get(key)
            if more is None:
                told = bit[span[2 * number] : span[2 * number + 1]].tolist()
                more = tested[key] = self._bits_tested(group, key[1].decode(), told)
                if len(key[1]) <= self._groups.known_max[group]:
                    found[key] = [one for one in told if one >= 0] + more
            events += [int(rows.event[row])] * len(more)
            bits += more
        self._cache.keep(found)
        return np.array(events, np.int32), np.array(bits, np.int32)

    def _bits_tested(self, group: int, text: str, told: list[int]) -> list[int]:
        tests = [~one for one in told if one < 0] + self._tested[group]
        bits = [bit for bit in dict.fromkeys(tests) if self._test_of(bit)(text)]
        return bits + self._networks[group].bits_of(text)

    def _test_of(self, bit: int) -> Callable[[str], bool]:
        test = self._tests.get(bit)
        if test is None:
            test = self._tests[bit] = compile_text(self._predicates[bit])
        return test


def _arrays_of(groups: Sequence[_Group]) -> tuple[kernels.Groups, list[MachineNeedles]]:
    """Return the groups for the kernel, and the machines that there are."""
    machines: list[MachineNeedles] = []
    machine = np.full(2 * len(groups), kernels.NO_MACHINE, np.int32)
    for number, group in enumerate(groups):
        for kind, needles in enumerate((group.folded, group.exact)):
            if needles.outputs:
                machine[2 * number + kind] = len(machines)
                machines.append(needles)
    arrays = kernels.Groups(
        frozen(machine),
        kernel_input(np.cumsum([0, *(len(group.always) for group in groups)]), np.int32),
        kernel_input(np.array([bit for group in groups for bit in group.always], np.int32), np.int32),
        frozen(np.array([group.is_slow for group in groups], np.uint8)),
        frozen(np.array([group.known_max for group in groups], np.int64)),
        frozen(np.array([group.kept_max for group in groups], np.int64)),
        frozen(np.array([group.output_max for group in groups], np.int64)),
    )
    return arrays, machines
