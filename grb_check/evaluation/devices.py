"""Where torch computes: the device, and with how many threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch

from grb_check.errors import UsageError

SMALL: Final = 20_000  # nodes; below it one thread is as fast as many


def resolve_device(text: str) -> torch.device:
    """The torch device; `auto` is the first GPU, else the CPU.

    Raises:
        UsageError: the device does not exist here.
    """
    if text == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(text)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        first = str(error).splitlines()[0]
        raise UsageError(f"device {text!r} cannot be used here: {first}") from None
    return device


@contextmanager
def threads_for(num_nodes: int) -> Iterator[None]:
    """One torch thread for small graphs, the usual number for large ones.

    Sums depend on the number of threads in their last bits, and training amplifies them: with one
    thread the outcome is the same on machines with other numbers of cores. And xdist workers that
    each use all cores wait for each other most of the time.
    """
    before = torch.get_num_threads()
    if num_nodes < SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
