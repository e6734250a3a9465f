"""Models and datasets of which nothing could be compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from grb_check.cases.case import Case
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.node_ids import is_node_id
from grb_check.cases.verdicts import Comparison
from grb_check.errors import count
from grb_check.gate.baselines.baseline import Baseline, key_of
from grb_check.gate.baselines.files import entry_of
from grb_check.gate.baselines.joint import (
    JointComparison,
    ModelOnDataset,
    groups_of,
)
from grb_check.gate.baselines.pairs import why_incomparable

USER_TESTS: Final = "own tests"  # of users, as a group
SHOWN: Final = 3  # models and datasets of the baseline that the text names
ADVICE: Final = "run what the baseline has, or accept this run with --grb-update-baseline"
BASE_ADVICE: Final = "name a base with the same data and attacks, or run without one this time"


def uncompared(
    baseline: Baseline, rows: Sequence[CaseRecord], planned: Sequence[Case]
) -> tuple[JointComparison, ...]:
    """Return a failed verdict for each model and dataset of which nothing was compared.

    A model or dataset that the baseline lacks is new, and fails only if the whole run compared
    nothing. Cases that did not run do not count; users' own tests count for the whole run only.

    Args:
        baseline: that the run is compared with.
        rows: of the run.
        planned: the cases of the whole run.
    """
    judged = [row for row in rows if row.outcome is not None and _result(row)]
    nothing = not any(map(_compared, judged))
    groups: dict[ModelOnDataset, list[CaseRecord]] = {}
    for row in judged:
        if nothing or is_node_id(row.node_id):
            groups.setdefault((row.case.model, row.case.dataset), []).append(row)
    known, numbers = baseline.saved.groups, groups_of(planned)
    result = []
    for (model, dataset), members in groups.items():
        is_known = (model or baseline.compared_model, dataset) in known
        if any(map(_compared, members)) or not (nothing or is_known):
            continue
        text = _text(baseline, members, model or baseline.model)
        result.append(
            JointComparison(
                model=model,
                dataset=dataset,
                compared=0,
                cases=max(numbers.get((model, dataset), 0), len(members)),
                comparison=Comparison(result="incomparable", text=text, margin=baseline.margin),
            )
        )
    return tuple(result)


def without_figures(
    baseline: Baseline, rows: Sequence[CaseRecord], planned: Sequence[Case]
) -> tuple[JointComparison, ...]:
    """Return a failed verdict for each model that fails at the base, and dataset.

    Users' own tests there are a group of their own.
    """
    result = []
    user_tests = {("", USER_TESTS): sum(not is_node_id(row.node_id) for row in rows)}
    for (model, dataset), cases in {**groups_of(planned), **user_tests}.items():
        label = dataset if dataset == USER_TESTS else model or baseline.model
        text = baseline.failures.get(label)
        if text is not None:
            failed = Comparison(result="incomparable", text=text, margin=baseline.margin)
            result.append(
                JointComparison(
                    model=model, dataset=dataset, compared=0, cases=cases, comparison=failed
                )
            )
    return tuple(result)


def _result(row: CaseRecord) -> str:
    """The result of the comparison of a case; empty without one."""
    return "" if row.comparison is None else row.comparison.result


def _compared(row: CaseRecord) -> bool:
    return _result(row) not in ("new", "incomparable")


def _text(baseline: Baseline, rows: Sequence[CaseRecord], model: str) -> str:
    """The content of the baseline and of the run, and what to do."""
    entries, dataset = baseline.entries, rows[0].case.dataset
    known = [row for row in rows if key_of(row.node_id, row.case) in entries]
    reported = [f"{len(rows) - len(known)} not in the baseline"] if len(known) < len(rows) else []
    if known:
        first = known[0]
        assert first.outcome is not None  # of those that were judged
        before = entries[key_of(first.node_id, first.case)]
        why = why_incomparable(before, entry_of(first.outcome))
        reported.append(f"{len(known)} not comparable ({first.case.id}: {why})")
    in_run = _of(len(rows), model, dataset)
    return (
        f"nothing was compared: the baseline has {_content(baseline)}; this run has {in_run}: "
        f"{', '.join(reported)}; {BASE_ADVICE if baseline.revision else ADVICE}"
    )


def _content(baseline: Baseline) -> str:
    """The models and datasets of the file, with their number of cases."""
    groups = baseline.saved.groups
    user_tests = len(baseline.saved.entries) - groups.total()
    parts = [_of(number, *group) for group, number in sorted(groups.items())]
    if parts[SHOWN:]:
        parts[SHOWN:] = [f"cases of {len(parts) - SHOWN} more models and datasets"]
    if user_tests:
        parts.append(f"{user_tests} of the repository's own tests")
    return ", ".join(parts) or "no case"


def _of(cases: int, model: str, dataset: str) -> str:
    return f"{count(cases, 'case')}{f' of {model}' if model else ''} on {dataset}"
