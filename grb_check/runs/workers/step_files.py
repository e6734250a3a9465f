"""How far the steps of processes are: each process writes a file, which that of the run reads.

Loads no torch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grb_check.runs.how_far import HowFar

if TYPE_CHECKING:
    from grb_check.attacks.verdicts import Tell  # imports torch

_EVERY: Final = 0.5  # seconds between two texts of a step


@dataclass(frozen=True)
class StepFiles:
    """The steps of processes of one machine; see `measure_repeat` for their use.

    Attributes:
        folder: that the processes and the reader share.
    """

    folder: str

    @contextmanager
    def __call__(self, text: str) -> Iterator[Tell]:
        """Write how far a step of this process is, if it tells its share."""
        path, far = Path(self.folder) / f"{os.getpid()}.step", HowFar()
        written: float | None = None

        def tell(share: float) -> None:
            nonlocal written
            far.tell(share)
            if written is None or time.monotonic() - written > _EVERY:
                written = time.monotonic()
                with suppress(OSError):  # the run has ended, and the folder with it
                    path.write_text(f"{text} ({far})", "utf-8")

        try:
            yield tell
        finally:
            with suppress(OSError):
                path.unlink()

    def read(self) -> str:
        """Return the steps that tell their share, one after another; empty if there is none."""
        texts = []
        for path in sorted(Path(self.folder).glob("*.step")):
            with suppress(OSError):  # its step has just ended
                texts.append(path.read_text("utf-8"))
        return "; ".join(filter(None, texts))
