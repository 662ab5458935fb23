"""Lanes: bytes that lie side by side and are compared all at once.

`lanes_inside(array, at, low, more)` compares the `LANES` bytes from ``array[at]`` on, all of which must
exist. Bit k of what it returns says that byte k is `low` or at most `more` above it, modulo 256; of `low` and
`more` the lowest eight bits count. A loop over so few bytes is unrolled and then not made into vector
instructions, so they are said directly, in a form that every processor has its own for.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

LANES = 16
_BYTE_MASK = 255


def _lanes_inside_plain(array: Any, at: Any, low: Any, more: Any) -> Any:
    found = 0
    for lane, byte in enumerate(array[int(at) : int(at) + LANES].tolist()):
        found |= ((byte - int(low)) & _BYTE_MASK <= int(more) & _BYTE_MASK) << lane
    return np.int64(found)


@intrinsic
def _lanes_inside_vector(_typing_context: Any, array: Any, at: Any, low: Any, more: Any) -> Any:
    """Emit one load, one subtraction and one comparison of vectors."""
    byte, word = ir.IntType(8), ir.IntType(32)
    vector, nowhere = ir.VectorType(byte, LANES), ir.VectorType(word, LANES)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def in_all_lanes(value: Any) -> Any:
            none = ir.Constant(vector, ir.Undefined)
            first = builder.insert_element(none, builder.trunc(value, byte), word(0))
            return builder.shuffle_vector(first, none, ir.Constant(nowhere, None))

        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), vector.as_pointer())
        above = builder.sub(builder.load(place, align=1), in_all_lanes(arguments[2]))
        inside = builder.icmp_unsigned("<=", above, in_all_lanes(arguments[3]))
        return builder.zext(builder.bitcast(inside, ir.IntType(LANES)), ir.IntType(64))

    return types.int64(array, types.int64, types.int64, types.int64), generate


lanes_inside: Any = _lanes_inside_plain if numba.config.DISABLE_JIT else _lanes_inside_vector  # type: ignore[attr-defined]
