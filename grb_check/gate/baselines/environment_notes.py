"""Differences between the environments of a baseline and of a run, in words.

The tests assume that both runs apply the same black-box perturbations. Rounding differences between
environments lead to others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grb_check.cases.case_record import CaseRecord
from grb_check.errors import count
from grb_check.files.versions import MEASURED, PACK
from grb_check.gate.baselines.baseline import Baseline, key_of
from grb_check.gate.baselines.files import entry_of
from grb_check.gate.baselines.pairs import why_incomparable


def environment_notes(
    baseline: Baseline, rows: Sequence[CaseRecord], environment: Mapping[str, str]
) -> list[str]:
    """Return the differences between the environments of a baseline and of a run, in words.

    Args:
        baseline: that the run is compared with.
        rows: of the run.
        environment: of the run, by name: versions of packages, and the processor.
    """
    saved, notes = baseline.saved, []
    if saved.versions:
        notes += _other_versions(saved.versions, environment)
    return notes + _other_perturbations(baseline, rows)


def _other_versions(was: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return a note if a version, or the processor, has changed."""
    changed = [
        f"{name} {was.get(name, 'unknown')}, now {now[name]}"
        for name in MEASURED
        if name in now and was.get(name) != now[name]
    ]
    if was.get(PACK) != now.get(PACK):
        changed.append(f"pack {was.get(PACK, 'none')}, now {now.get(PACK, 'none')}")
    text = f"the baseline was measured in another environment: {'; '.join(changed)}"
    return [text] if changed else []


def _other_perturbations(baseline: Baseline, rows: Sequence[CaseRecord]) -> list[str]:
    """Return a note if perturbations that do not depend on the model have changed.

    The tests assume that both runs have the same ones.
    """
    result = []
    for row in rows:
        before = baseline.entries.get(key_of(row.node_id, row.case))
        if row.outcome is None or before is None or why_incomparable(before, entry_of(row.outcome)):
            continue
        pairs = zip(before.perturbations, row.outcome.repeats, strict=False)
        if any(
            repeat.perturbation != was and repeat.method == "black-box" and not repeat.member
            for was, repeat in pairs
        ):
            result.append(row.case.id)
    if not result:
        return []
    cases = count(len(result), "case")
    return [
        f"in {cases} ({result[0]}{', ...' if result[1:] else ''}) the perturbations differ from "
        f"the baseline's, though they do not depend on the model: rounding differences between "
        f"machines or libraries lead to another surrogate, whose randomness all repeats share; "
        f"write the baseline on the machine where it is compared, or give both runs the same "
        f"perturbations with --grb-pack"
    ]
