"""The memory that N x N arrays may take, for the defences that need them."""

from __future__ import annotations

from typing import Final

from grb_check.errors import ModelError

MOST_BYTES: Final = 4 * 2**30


def check_dense(method: str, num_nodes: int, *, arrays: int, bytes_each: int) -> None:
    """Check the memory that a method takes.

    Args:
        method: for the message, such as "diffusion".
        num_nodes: N.
        arrays: N x N arrays in memory at a time.
        bytes_each: of a value.

    Raises:
        ModelError: it is more than `MOST_BYTES`.
    """
    needed = arrays * bytes_each * num_nodes**2
    if needed > MOST_BYTES:
        raise ModelError(
            f"{method} of a graph of {num_nodes:,} nodes takes {needed / 2**30:.1f} GiB, of which "
            f"at most {MOST_BYTES / 2**30:.0f} GiB are allowed; choose a smaller graph or a model "
            f"without {method}"
        )
