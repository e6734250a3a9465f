"""How far a step of a run is, as text. Loads no torch."""

from __future__ import annotations

import time

from grb_check.runs.remaining import time_left


class HowFar:
    """The duration of a step, and the time left where the step tells its share."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._share = 0.0

    def tell(self, share: float) -> None:
        """Note that so much of the step is done, from 0 to 1."""
        self._share = share

    def __str__(self) -> str:
        seconds, share = time.monotonic() - self._start, self._share  # which another thread tells
        if not share:
            return f"{seconds:.0f} s"
        left = time_left(seconds * (1 - share) / share)
        return f"{seconds:.0f} s, {100 * share:.0f} % tried, {left}"
