"""How many pairs an attack looks at for each edge that it may change."""

from __future__ import annotations

from grb_check.errors import UsageError


def check_sample_size(additions_per_change: int) -> None:
    """Raise `UsageError` unless it is 1 or more."""
    if additions_per_change < 1:
        msg = f"additions_per_change is {additions_per_change}, allowed are 1 and more"
        raise UsageError(msg)
