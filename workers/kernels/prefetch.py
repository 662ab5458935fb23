"""Prefetch: ask for a cache line early, so that independent accesses wait for memory together.

`prefetch(array, at)` is a hint with no other effect: any `at` is allowed, nothing is read that the program
could see. Interpreted (``NUMBA_DISABLE_JIT=1``) it does nothing.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

_READ, _KEEP, _DATA = 0, 3, 1


def _prefetch_plain(_array: Any, _at: Any) -> None:
    return


@intrinsic
def _prefetch_line(_typing_context: Any, array: Any, at: Any) -> Any:
    """Emit ``llvm.prefetch`` for the address of ``array[at]``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        index = context.cast(builder, arguments[1], signature.args[1], types.intp)
        byte = builder.bitcast(builder.gep(data, [index]), ir.IntType(8).as_pointer())
        word = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [byte.type, word, word, word])
        function = builder.module.declare_intrinsic("llvm.prefetch", (byte.type,), function_type)
        builder.call(function, [byte, word(_READ), word(_KEEP), word(_DATA)])
        return context.get_dummy_value()

    return types.void(array, at), generate


prefetch: Any = _prefetch_plain if numba.config.DISABLE_JIT else _prefetch_line  # type: ignore[attr-defined]
