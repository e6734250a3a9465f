"""The result of a run that has a baseline: the joint verdicts, or the file written.

The environments of a baseline and of a run: versions, processor, black-box perturbations.

The tests assume that both runs apply the same black-box perturbations. Rounding differences between
environments lead to others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from grb_check.cases.case import Case, is_node_id
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.shards import Shard
from grb_check.cases.verdicts import Comparison
from grb_check.errors import count
from grb_check.files.outputs import reason, shown
from grb_check.files.versions import MEASURED, PACK
from grb_check.gate.baselines.baseline import REPEATS, Baseline, key_of
from grb_check.gate.baselines.files import BaselineCase, entry_of, is_user_test, why_incomparable
from grb_check.gate.baselines.joint import (
    JointComparison,
    ModelOnDataset,
    groups_of,
)


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


FEW: Final = 10  # repeats; with fewer, a loss of 3 points of a trained model is often missed


@dataclass(frozen=True, kw_only=True)
class BaselineResult:
    """Results of the baseline at the end of a run.

    Attributes:
        baseline: of the run.
        joint: the verdicts on all cases of each model and dataset that has an entry, or should.
        environment: the checks of each dataset, if its environment has to be the baseline's.
        unused: keys of entries that no case of the run has.
        written: number of entries that this run made for the file; None if it was not to write
            it, or could not.
        failed: whether it could not be written.
        notes: to report.
    """

    baseline: Baseline
    joint: tuple[JointComparison, ...] = ()
    unused: tuple[str, ...] = ()
    written: int | None = None
    failed: bool = False
    notes: tuple[str, ...] = ()

    @property
    def unrequested(self) -> bool:
        """Whether a file was written because there was none: the user has to commit it."""
        return self.written is not None and not self.baseline.requested

    @property
    def where(self) -> str:
        """The path of the file, relative to the working directory if it lies below that."""
        return shown(self.baseline.path)


def baseline_result(
    baseline: Baseline,
    rows: Sequence[CaseRecord],
    planned: Sequence[Case],
    environment: Mapping[str, str],
    *,
    cut_short: bool,
    shard: Shard | None,
) -> BaselineResult:
    """Judge all cases jointly, or write the file.

    Args:
        baseline: of the run.
        rows: of the cases that were reported.
        planned: the cases of the whole run.
        environment: versions of packages, and the processor, by name.
        cut_short: whether the run stopped before its end.
        shard: the part of a run that this is; None for a whole run.
    """
    if baseline.writes:
        return _written(baseline, rows, environment, cut_short=cut_short)
    baseline = baseline.completed(
        {key_of(row.node_id, row.case): entry_of(row.outcome) for row in rows if row.outcome}
    )
    keys = {case.id for case in planned} | {key_of(row.node_id, row.case) for row in rows}
    unused = tuple(key for key in baseline.unused(keys) if not is_user_test(key))
    few = [] if baseline.revision else _few_repeats(baseline.entries)
    notes = [*_nothing_judged(rows), *few, *baseline.notes]
    notes += environment_notes(baseline, rows, environment)
    if unused and not baseline.revision:
        some = ", ".join(unused[:3]) + (f" and {len(unused) - 3} more" if unused[3:] else "")
        notes.append(
            f"{count(len(unused), 'entry', 'entries')} of the baseline without a "
            f"case in this run ({some}); to remove them, delete the file and write it again"
        )
    if shard is not None:
        notes.append(
            f"no joint verdict on all cases: this is part {shard}; python -m grb_check merge gives "
            f"one"
        )
    now = entries_of(rows) if shard is None else {}
    explained = {
        (row.case.model, row.case.dataset)
        for row in rows
        if row.comparison is not None and row.comparison.explained and is_node_id(row.node_id)
    }
    joint = baseline.compare_jointly(now, planned, explained)
    joint += without_figures(baseline, rows, planned)
    if shard is None and (baseline.entries or not baseline.revision):  # else every model is new
        joint += uncompared(baseline, rows, planned)
    return BaselineResult(
        baseline=baseline,
        joint=joint,
        unused=unused,
        notes=tuple(notes),
    )


def entries_of(rows: Sequence[CaseRecord]) -> dict[Case, BaselineCase]:
    """Return the entries of the built-in cases, which are compared jointly."""
    return {
        row.case: entry_of(row.outcome)
        for row in rows
        if row.outcome is not None and is_node_id(row.node_id)
    }


def _nothing_judged(rows: Sequence[CaseRecord]) -> list[str]:
    """Return a note if no case has a verdict, so that nothing could be compared."""
    if any(row.verdict is not None for row in rows):
        return []
    return ["nothing was compared with the baseline: no case of this run has a verdict"]


def _few_repeats(entries: Mapping[str, BaselineCase]) -> list[str]:
    """Return a note if entries have few repeats, of which the tests have little power."""
    few = [entry.repeats for entry in entries.values() if entry.repeats < FEW]
    if not few:
        return []
    return [
        f"{len(few)} of {count(len(entries), 'entry', 'entries')} of the baseline have fewer "
        f"than {FEW} repeats (the "
        f"least {min(few)}), with which a loss of 3 points of a retrained model is often not "
        f"detected; --grb-repeats={REPEATS} --grb-update-baseline writes them again"
    ]


def _written(
    baseline: Baseline,
    rows: Sequence[CaseRecord],
    environment: Mapping[str, str],
    *,
    cut_short: bool,
) -> BaselineResult:
    # A user's own test that never requests the verdict is never compared either.
    judged = [row for row in rows if row.verdict is not None]
    created = {
        key_of(row.node_id, row.case): entry_of(row.outcome)
        for row in judged
        if row.outcome is not None
    }
    if cut_short or not created:
        why = "the run stopped before its end" if cut_short else "no case has figures"
        note = f"{shown(baseline.path)} not written: {why}"
        return BaselineResult(baseline=baseline, notes=(note,))
    try:
        result = baseline.write(created, environment)
    except OSError as error:
        note = f"{shown(baseline.path)} not written: {reason(error)}"
        return BaselineResult(baseline=baseline, failed=True, notes=(note,))
    retained = result.retained
    entries = count(len(created), "entry", "entries")
    text = f"{entries} written to {shown(baseline.path)}" + (
        f", {retained} kept" if retained else ""
    )
    if result.unchanged:
        text = f"{shown(baseline.path)} unchanged: {entries} of this run already there"
    notes = [text, *_few_repeats(created), *baseline.notes]
    if retained:
        notes += environment_notes(baseline, (), environment)
    return BaselineResult(baseline=baseline, written=len(created), notes=tuple(notes))
