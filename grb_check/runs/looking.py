"""Looks at a run and its base, in more repeats as long as a comparison is in doubt."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from grb_check.cases.case import Case
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.repeat_results import CaseResult
from grb_check.cases.verdicts import Comparison
from grb_check.errors import GrbCheckError, one_line
from grb_check.gate.baselines.baseline import Baseline
from grb_check.gate.baselines.files import BaselineCase, entry_of, is_user_test
from grb_check.gate.baselines.joint import ModelOnDataset
from grb_check.gate.baselines.looks import OF_A_CASE, OF_ALL_CASES, Look, decided, in_doubt, looks
from grb_check.gate.baselines.result import entries_of, explained_by
from grb_check.runs.base import BaseCase, BaseSide
from grb_check.runs.measuring import Measuring


class Looking:
    """Compares a run with its base.

    A case is looked at when its test asks; all cases of a model and dataset together when the last
    one is done. A test that has ended stands: what the looks at all cases measure besides counts
    for them alone.

    Args:
        base: measures its side.
        measuring: measures the side of the run.
        baseline: what the base left in the first repeats.
        strict: whether a case fails unless it is shown that it is no worse.

    Attributes:
        baseline: the same, with what was measured since, and with the last look at all cases.
        further: entries of the run that have more repeats than their test had.
    """

    def __init__(
        self, base: BaseSide, measuring: Measuring, baseline: Baseline, *, strict: bool
    ) -> None:
        self._base = base
        self._measuring = measuring
        self._of_a_case = OF_ALL_CASES if strict else OF_A_CASE
        self.baseline = baseline
        self.further: dict[Case, BaselineCase] = {}

    def compare(self, key: str, result: CaseResult) -> tuple[Comparison | None, CaseResult]:
        """Compare a case, and return with it the result that it was compared by.

        Args:
            key: of the case, see `baseline.key_of`.
            result: of the first repeats.
        """
        if self.baseline.same or key not in self.baseline.entries:
            return self.baseline.compare(key, result.outcome), result
        possible = looks(len(result.results))
        latest, seen = result, None

        def look_at(look: Look) -> Comparison:
            nonlocal latest, seen
            if look != possible[0]:
                case = latest.outcome.case
                test = key if is_user_test(key) else ""
                self._extend_base([BaseCase(case=case, repeats=look.repeats, test=test)])
                latest = self._measuring.result(case, latest.outcome.model, look.repeats)
            seen = self.baseline.compare(key, latest.outcome, look)
            assert seen is not None
            return seen

        try:
            return decided(look_at, possible, self._of_a_case), latest
        except GrbCheckError as error:
            if seen is None:
                raise
            return replace(seen, text=f"{seen.text}; {_not_again(error)}"), latest

    def look_at_all(self, rows: Sequence[CaseRecord], planned: Sequence[Case]) -> None:
        """Look at all cases of each model and dataset, until none is in doubt, or to the last look.

        Where they cannot be measured again, a note of the baseline says so.

        Args:
            rows: of the run, which all have come back.
            planned: the cases of the whole run.
        """
        if self.baseline.same:
            return
        first = entries_of(rows)
        groups: set[ModelOnDataset] = {(case.model, case.dataset) for case in first}
        for look in looks(self.baseline.first):
            cases = [case for case in first if (case.model, case.dataset) in groups]
            try:
                self._extend(rows, cases, look)
            except GrbCheckError as error:
                notes = (*self.baseline.notes, f"all cases together: {_not_again(error)}")
                self.baseline = replace(self.baseline, notes=notes)
                return
            looked = {**self.baseline.joint_looks, **dict.fromkeys(groups, look)}
            self.baseline = replace(self.baseline, joint_looks=looked)
            now = {**first, **self.further}
            joint = self.baseline.compare_jointly(now, planned, explained_by(rows))
            groups = {
                (loss.model, loss.dataset)
                for loss in joint
                if loss.accuracy == "attacked" and in_doubt(loss.comparison, OF_ALL_CASES)
            }
            if not groups:
                return

    def _extend(self, rows: Sequence[CaseRecord], cases: Collection[Case], look: Look) -> None:
        """Measure those of these cases on both sides that have fewer repeats than a look needs."""
        known = entries_of(rows) | self.further
        names = {row.case: row.outcome.model for row in rows if row.outcome is not None}
        entries = self.baseline.entries
        lacking = [
            case for case in cases if case.id in entries and known[case].repeats < look.repeats
        ]
        if not lacking:
            return
        self._extend_base([BaseCase(case=case, repeats=look.repeats) for case in lacking])
        self._measuring.submit_all(dict.fromkeys(lacking, look.repeats), {})
        for case in lacking:
            result = self._measuring.result(case, names[case], look.repeats)
            self.further[case] = entry_of(result.outcome)

    def _extend_base(self, cases: Sequence[BaseCase]) -> None:
        entries: Mapping[str, BaselineCase] = self._base.entries(cases)
        saved = self.baseline.saved
        saved = replace(saved, entries={**saved.entries, **entries})
        self.baseline = replace(self.baseline, saved=saved)


def _not_again(error: GrbCheckError) -> str:
    return f"not measured in further repeats: {one_line(error)}"
