"""ROC-AUC and average precision beside a baseline's: reported, and no verdict.

Recalls are what a case is judged by; the areas say whether the whole ranking has moved.
"""

from __future__ import annotations

import statistics
from typing import Final

from grb_check.gate.baselines.comparison_words import short
from grb_check.gate.baselines.mean_test import mean_test
from grb_check.gate.baselines.pairs import Pair

NAMES: Final = ("ROC-AUC", "average precision")


def areas_beside(pair: Pair) -> str:
    """Return the mean areas under attack of both sides, in words; empty if a side has none.

    With two or more trainings also the p of a paired t-test on repeats, two-sided, that the mean
    has not changed; collapsed trainings are among them.
    """
    repeats = range(pair.repeats) if pair.on_targets else pair.trainings
    if not (pair.before.areas and pair.after.areas and repeats):
        return ""
    texts = []
    for index, name in enumerate(NAMES):
        before, after = (
            [100.0 * side.areas[repeat][index] for repeat in repeats]
            for side in (pair.before, pair.after)
        )
        text = f"{name} {statistics.fmean(after):.1f} against {statistics.fmean(before):.1f}"
        losses = [round(was - now, 3) for was, now in zip(before, after, strict=True)]
        if len(set(losses)) > 1 and not pair.on_targets:
            beyond = mean_test(losses, margin=0.0).p
            text += f" (p {short(2 * min(beyond, 1 - beyond))})"
        texts.append(text)
    return f"under attack {', '.join(texts)}"
