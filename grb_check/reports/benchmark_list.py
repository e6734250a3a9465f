"""Drops as the list that github-action-benchmark reads for its tool `customSmallerIsBetter`.

https://github.com/benchmark-action/github-action-benchmark: objects with `name`, `unit`, `value`,
and the texts `range` and `extra`, which its charts show beside the value.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from grb_check.reports.case_line import WORDS
from grb_check.reports.digest import Digest
from grb_check.reports.plain import percent


def benchmark_text(digests: Sequence[Digest]) -> str:
    """Return the list: an object for each case with figures, its value the drop in percent."""
    result = [
        {
            "name": f"{digest.name}: {digest.name_of(line)}"
            if digest.name
            else digest.name_of(line),
            "unit": "% drop",
            "value": 100 * outcome.drop,
            "range": f"± {100 * outcome.drop_deviation:.1f}",
            "extra": f"clean {percent(outcome.clean)}, attacked {percent(outcome.attacked)}\n"
            f"limit {percent(line.limit)}, {WORDS[line.status]}",
        }
        for digest in digests
        for line in digest.lines
        if (outcome := line.row.outcome) is not None
    ]
    return json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
