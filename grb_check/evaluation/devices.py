"""The torch device of a run, and the number of threads for a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch

from grb_check.errors import UsageError

SMALL: Final = 20_000  # nodes; below, one thread is as fast as many


def resolve_device(text: str) -> torch.device:
    """Return the torch device; `auto` is the first GPU, or the CPU if there is none.

    Raises:
        UsageError: the device does not exist on this machine.
    """
    if text == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(text)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        first = str(error).splitlines()[0]
        raise UsageError(
            f"device {text!r} cannot be used here: {first}; give auto, cpu, or cuda:N of a GPU of "
            f"this machine"
        ) from None
    return device


@contextmanager
def threads_for(num_nodes: int) -> Iterator[None]:
    """Use one torch thread for small graphs, the usual number for large ones.

    Rounding of sums depends on the number of threads, and training amplifies it: with one thread
    the outcome does not depend on the number of cores. Besides, xdist workers that each use all
    cores spend most of their time waiting for each other.
    """
    before = torch.get_num_threads()
    if num_nodes < SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
