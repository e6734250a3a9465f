"""Large matrices a few rows at a time, so that scratch memory stays small."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from numpy.typing import NDArray

BLOCK_VALUES: Final = 1 << 22  # 32 MiB of float64


def blocks(x: NDArray[Any]) -> Iterator[slice]:
    """Slices of rows of a matrix, each of at most 4 million values, or of one row."""
    step = max(1, BLOCK_VALUES // max(1, x.shape[1]))
    return (slice(start, start + step) for start in range(0, x.shape[0], step))
