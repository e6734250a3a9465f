"""A run that measures in its own process, case by case, so that verdicts come early."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grb_check.attacks.registry import Pair
from grb_check.cases.case import Case
from grb_check.cases.outcomes import Finding
from grb_check.cases.repeat_results import RepeatResult
from grb_check.datasets import Source
from grb_check.evaluation.evaluator import Evaluator
from grb_check.execution.finished import Finished
from grb_check.execution.transfers import Trying
from grb_check.victims.subject import Subject


@dataclass(frozen=True)
class Here:
    """Measures cases in this process.

    Attributes:
        evaluator: of the run.
        finished: what an interrupted run has measured.
        selected: attacks of the run as the user selected them, for `worst`.
    """

    evaluator: Evaluator
    finished: Finished
    selected: Sequence[Pair]

    def results(
        self, subject: Subject, source: Source, case: Case, repeats: int
    ) -> list[RepeatResult]:
        """Return the results of all repeats of a case; see `Evaluator.repeat` for errors."""
        return [
            self.finished.repeat(
                self.evaluator,
                subject,
                source,
                case,
                seed,
                repeats=repeats,
                selected=self.selected,
            )
            for seed in range(repeats)
        ]

    def tried(self, subject: Subject, source: Source, trying: Trying) -> Mapping[Case, Finding]:
        """Try perturbations on a victim of this run; see `Evaluator.stronger_transfers`."""
        return self.evaluator.stronger_transfers(
            subject, source, trying.own, trying.seed, trying.made, self.selected
        )

    def with_references(
        self, source: Source, case: Case, results: Sequence[RepeatResult]
    ) -> list[RepeatResult]:
        """Return results with the scores of all references."""
        return [self.evaluator.references(source, case, each, self.selected) for each in results]
