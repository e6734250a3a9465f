"""Names of metrics, as settings and records write them.

`accuracy`, `balanced`, or `recall@SHARE+positive=CLASS`. Does not load torch.
"""

from __future__ import annotations

import re
import reprlib
from typing import Final

from grb_check.errors import UsageError, choose

ACCURACY: Final = "accuracy"
BALANCED: Final = "balanced"
RECALL: Final = "recall"
ALLOWED: Final = (ACCURACY, BALANCED, f"{RECALL}@SHARE")
_RECALL: Final = re.compile(rf"{RECALL}@([0-9.eE+-]+?)(?:\+positive=([0-9]+))?")


def check_metric(given: str, positive: int | None = None) -> str:
    """Return a metric that the user named, with the positive class in it if there is one.

    Args:
        given: `accuracy`, `balanced`, `recall@SHARE` or `recall@SHARE+positive=CLASS`.
        positive: class of `--grb-positive`; None for none.

    Raises:
        UsageError: it is none of these, or a positive class is named for another metric.
    """
    if is_recall(given):
        share, known = parts_of_recall(given)
        chosen = known if positive is None else positive
        text = f"{RECALL}@{share!r}"
        return text if chosen is None else f"{text}+positive={chosen}"
    choose("metric", given, ALLOWED)
    if positive is not None:
        raise UsageError(
            f"--grb-positive={positive} says of which class the recall is, and the metric is "
            f"{given}; name --grb-metric=recall@0.01, or leave it out"
        )
    return given


def is_recall(metric: str) -> bool:
    """Return whether a metric is a recall, be it well written or not."""
    return metric.startswith(f"{RECALL}@")


def parts_of_recall(metric: str) -> tuple[float, int | None]:
    """Return the share of false alarms, and the positive class if one is named.

    Raises:
        UsageError: the text is not `recall@SHARE` or `recall@SHARE+positive=CLASS`.
    """
    match = _RECALL.fullmatch(metric)
    try:
        share = float(match[1]) if match else 0.0
    except ValueError:
        share = 0.0
    if match is None or not 0 < share < 1:
        raise UsageError(
            f"metric {reprlib.repr(metric)}: after {RECALL}@ stands the share of false alarms, "
            f"above 0 and below 1; write it as in {RECALL}@0.01, one node in a hundred"
        )
    return share, None if match[2] is None else int(match[2])
