"""What the kernels of texts must do, in plain Python; `reference` has the rules for these modules."""

from __future__ import annotations

from typing import Any

from pubsub_cluster.language.values import fold
from pubsub_cluster.workers.kernels._jit import OK, OVERFLOW
from pubsub_cluster.workers.kernels.automaton import NO_NEEDLE, START_BYTE, STOP_BYTE
from pubsub_cluster.workers.kernels.bits import HEAP_USED, NO_GROUP, NO_MACHINE, STAMP, TEXT_COUNT

_STATE_BITS = 28


def grow_tries(needles: Any, edges: Any, trie: Any) -> int:
    """See `automaton.grow_tries`; leaves the edges alone, which are (parent, byte) of the states."""
    data, offset, machine = needles
    state_of: dict[tuple[int, bytes], int] = {}
    count = len(edges[2])
    states = [(-1, 0, 0, NO_NEEDLE, root) for root in range(count)]
    for needle, root in enumerate(machine.tolist()):
        text = data[offset[needle] : offset[needle + 1]].tobytes()
        for size in range(1, len(text) + 1):
            if (root, text[:size]) not in state_of:
                state_of[root, text[:size]] = count
                parent = state_of.get((root, text[: size - 1]), root)
                states.append((parent, text[size - 1], size, NO_NEEDLE, root))
                count += 1
        last = state_of.get((root, text), root)
        states[last] = (*states[last][:3], needle, root)
    for column, values in zip(trie, zip(*states, strict=True), strict=True):
        column[:count] = values
    return count


def link_states(order: Any, trie: Any, edges: Any, failure: Any, shorter: Any) -> None:
    """See `automaton.link_states`; looks at the trie alone."""
    parent, byte_of, _, end, root = (column.tolist() for column in trie)
    texts = [b""] * len(order)
    for state in order.tolist():
        if parent[state] >= 0:
            texts[state] = texts[parent[state]] + bytes([byte_of[state]])
    state_of = {(root[state], text): state for state, text in enumerate(texts)}
    for state, text in enumerate(texts):
        suffixes = [state_of.get((root[state], text[at:])) for at in range(len(text) + 1)]
        found = [suffix for suffix in suffixes if suffix is not None]
        ending = [end[suffix] for suffix in found if end[suffix] != NO_NEEDLE]
        failure[2 * state] = found[1] if len(found) > 1 else state
        failure[2 * state + 1] = ending[0] if ending else NO_NEEDLE
        if end[state] != NO_NEEDLE:
            shorter[end[state]] = ending[1] if len(ending) > 1 else NO_NEEDLE


def needles_of(machine: int, machines: Any) -> dict[int, bytes]:
    """Return the needles of a machine, longest first."""
    first, stop = machines.edge_first[machine], machines.edge_first[machine + 1]
    edges = sorted(edge for edge in machines.edge[first:stop].tolist() if edge != (1 << 64) - 1)
    texts = {machine: b""}
    pending = [machine]
    while pending:
        state = pending.pop()
        for edge in edges:
            if edge >> _STATE_BITS + 8 == state:
                target = edge & (1 << _STATE_BITS) - 1
                texts[target] = texts[state] + bytes([edge >> _STATE_BITS & 0xFF])
                pending.append(target)
    needles: dict[int, bytes] = {}
    for state, text in sorted(texts.items(), key=lambda item: len(item[1])):
        needle = int(machines.failure[2 * state + 1])
        if needle != NO_NEEDLE:
            needles.setdefault(needle, text)
    return dict(reversed(needles.items()))


def search_text(text: Any, machine: Any, machines: Any, folding: Any, stamps: Any, out: Any) -> int:
    """See `automaton.search_text`; folds as the language does."""
    data, start, stop = text
    told, stamp = stamps
    found, count = out
    searched = data[start:stop].tobytes()
    if machines.folds[machine]:
        searched = fold(searched.decode()).encode()
    searched = bytes([START_BYTE]) + searched + bytes([STOP_BYTE])
    needles = needles_of(int(machine), machines)
    for end in range(1, len(searched) + 1):
        for needle, wanted in needles.items():
            if told[needle] != stamp and searched[:end].endswith(wanted):
                told[needle] = stamp
                outputs = machines.output[machines.output_start[needle] : machines.output_start[needle + 1]]
                found[count : count + len(outputs)] = outputs
                count += len(outputs)
    return int(count)


def number_of(table: Any, group: int, text: bytes) -> int:
    """Return the number of a text of a group in a table, or -1."""
    for number in range(table.state[TEXT_COUNT]):
        kept = table.heap[table.start[number] : table.stop[number]].tobytes()
        if (table.group[number], kept) == (group, text):
            return number
    return -1


def has_room(table: Any, size: int, bit_count: int) -> bool:
    """See `bits.has_room`."""
    count = int(table.state[TEXT_COUNT])
    texts = count < len(table.group)
    heap = table.state[HEAP_USED] + size <= len(table.heap)
    return bool(texts and heap and table.bit_start[count] + bit_count <= len(table.bit))


def keep_text(table: Any, group: int, text: bytes, bits: Any) -> None:
    """Enter a text; leaves `slot` and `word` alone, which only say where to look."""
    count, used = int(table.state[TEXT_COUNT]), int(table.state[HEAP_USED])
    table.group[count], table.start[count], table.stop[count] = group, used, used + len(text)
    table.heap[used : used + len(text)] = list(text)
    first = int(table.bit_start[count])
    table.bit[first : first + len(bits)] = bits
    table.bit_start[count + 1] = first + len(bits)
    table.state[TEXT_COUNT], table.state[HEAP_USED] = count + 1, used + len(text)


def keep_texts(table: Any, texts: Any, bits: Any, seed: Any) -> int:
    """See `bits.keep_texts`."""
    data, offset, group = texts
    for at in range(len(group)):
        text = data[offset[at] : offset[at + 1]].tobytes()
        mine = bits[0][bits[1][at] : bits[1][at + 1]]
        if number_of(table, int(group[at]), text) < 0:
            if not has_room(table, len(text), len(mine)):
                return OVERFLOW
            keep_text(table, int(group[at]), text, mine)
    return OK


def find_bits(
    rows: Any, groups: Any, machines: Any, folding: Any, table: Any, scalars: Any, out: Any, slow: Any
) -> Any:
    """See `bits.find_bits`."""
    row, turn, count, slow_count, any_group, _ = scalars
    out_event, out_bit = out
    told, slow_row, slow_group, span = slow
    while row < len(rows.event):
        group = int(any_group if turn else rows.group[row])
        at = rows.data, rows.start[row], rows.stop[row]
        text = rows.data[at[1] : at[2]].tobytes()
        before, found = count, -1
        if group != NO_GROUP:
            if count + groups.output_max[group] > len(out_bit):
                return OVERFLOW, row, turn, count, slow_count
            if len(text) <= groups.known_max[group]:
                found = number_of(table, group, text)
                if found < 0 and not has_room(table, len(text), groups.output_max[group]):
                    return OVERFLOW, row, turn, count, slow_count
            if found >= 0:
                bits = table.bit[table.bit_start[found] : table.bit_start[found + 1]]
            else:
                bits = groups.always[groups.always_start[group] : groups.always_start[group + 1]]
            out_bit[count : count + len(bits)] = bits
            count += len(bits)
        if group != NO_GROUP and found < 0:
            for machine in groups.machine[2 * group : 2 * group + 2]:
                if machine != NO_MACHINE:
                    table.state[STAMP] += 1
                    stamps = told, table.state[STAMP]
                    count = search_text(at, machine, machines, folding, stamps, (out_bit, count))
            if groups.is_slow[group] or (out_bit[before:count] < 0).any():
                slow_row[slow_count], slow_group[slow_count] = row, group
                span[2 * slow_count : 2 * slow_count + 2] = before, count
                slow_count += 1
            elif len(text) <= groups.kept_max[group]:
                keep_text(table, group, text, out_bit[before:count])
        out_event[before:count] = rows.event[row]
        row, turn = (row + 1, 0) if turn else (row, 1)
    return OK, row, 0, count, slow_count


def arrange_bits(pairs: Any, seen: Any, stamp: Any, bit_start: Any, bit: Any) -> int:
    """See `bits.arrange_bits`; leaves `seen` alone."""
    found = list(zip(*(column.tolist() for column in pairs), strict=True))
    kept: list[int] = []
    for event in range(len(bit_start) - 1):
        kept += dict.fromkeys(value for at, value in found if at == event and value >= 0)
        bit_start[event + 1] = len(kept)
    bit[: len(kept)] = kept
    return len(kept)
