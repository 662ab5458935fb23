"""The one array type that kernels are compiled for: read-only, contiguous and aligned."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm.layout import frozen


def kernel_input(array: npt.NDArray[Any], dtype: Any) -> npt.NDArray[Any]:
    """Return `array` read-only, contiguous, aligned and of `dtype`, as kernels want it; copied if need be."""
    if array.dtype != dtype or not array.flags.c_contiguous or not array.flags.aligned:
        array = np.array(array, dtype, order="C")
    return frozen(array) if array.flags.writeable else array
