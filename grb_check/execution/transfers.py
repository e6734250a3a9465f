"""At the end of a run each of its perturbations is tried on every model that it was not made on.

Models are trained already, so that it costs a call of the model for each. Findings are added to the
outcomes afterwards; they do not depend on the order of the cases. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec.structs import replace as replace_fields

from grb_check.attacks.names import WORST, base_name
from grb_check.cases.case import Case, by_model_and_dataset, is_node_id
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.outcomes import Finding, RepeatResult, RunPerturbation
from grb_check.errors import GrbCheckError, count


@dataclass(frozen=True, kw_only=True)
class TransferTrial:
    """What is tried on the victim of one repeat.

    Attributes:
        own: case of a model and dataset whose attackers know the model -> the targets that stay
            right, packed bits.
        seed: of the repeat.
        made: perturbations of that repeat on the same dataset.
    """

    own: Mapping[Case, bytes]
    seed: int
    made: Sequence[RunPerturbation]


class Transfers:
    """The perturbations of a run."""

    def __init__(self) -> None:
        self._made: dict[tuple[Case, int], RunPerturbation] = {}
        self._contents: dict[bytes, bytes] = {}  # each once: models share those of surrogates
        self._lost: dict[Case, None] = {}  # measured by an interrupted run
        self.untried: list[str] = []  # what was not tried, and why

    def add(self, case: Case, results: Sequence[RepeatResult]) -> None:
        """Keep the perturbations of a case; those of an interrupted run are not known."""
        for result in results:
            if result.perturbation:
                content = self._contents.setdefault(result.perturbation, result.perturbation)
                knows = result.measurement.method != "black-box"
                created = RunPerturbation(case=case, knows_model=knows, perturbation=content)
                self._made[case, result.measurement.seed] = created
            elif base_name(case.attack) != WORST:
                self._lost[case] = None

    def findings(
        self,
        rows: Sequence[CaseRecord],
        tried: Callable[
            [Sequence[TransferTrial]],
            Iterable[tuple[TransferTrial, Mapping[Case, Finding] | GrbCheckError]],
        ],
    ) -> dict[tuple[Case, int], Finding]:
        """Return what was found, by case and repeat; what was not tried is in `untried`.

        Args:
            rows: of the run; users' own tests may be of other models, and are left out.
            tried: tries perturbations on victims, see `Measuring.tried`.
        """
        known = {row.case: row for row in rows if is_node_id(row.node_id)}
        if self._lost:
            self.untried.append(
                f"perturbations of {count(len(self._lost), 'case')} of an interrupted run were not "
                f"tried on other models"
            )
        tryings = []
        for cases in by_model_and_dataset(known):
            for seed in range(max(_repeats(known[case]) for case in cases)):
                rights = {case: right for case in cases if (right := _right(known[case], seed))}
                created = self._foreign_to(rights, seed)
                if created:
                    tryings.append(TransferTrial(own=rights, seed=seed, made=created))
        result: dict[tuple[Case, int], Finding] = {}
        for trial, findings in tried(tryings):
            if isinstance(findings, GrbCheckError):
                model = next(iter(trial.own)).model or "the model"
                self.untried.append(f"perturbations were not tried on {model}: {findings}")
            else:
                result |= {(case, trial.seed): finding for case, finding in findings.items()}
        return result

    def _foreign_to(self, cases: Mapping[Case, bytes], seed: int) -> list[RunPerturbation]:
        """Perturbations that may be tried in some of these cases, each once."""
        result: dict[bytes, RunPerturbation] = {}
        for case, own_seed in sorted(self._made, key=lambda key: key[0].order):
            candidate = self._made[case, own_seed]
            if own_seed == seed and any(map(candidate.is_foreign, cases)):
                result.setdefault(candidate.perturbation, candidate)
        return list(result.values())


def _repeats(row: CaseRecord) -> int:
    return 0 if row.outcome is None else len(row.outcome.repeats)


def _right(row: CaseRecord, seed: int) -> bytes:
    """The targets that stay right in a repeat; empty if the attack did not know the model."""
    repeats = () if row.outcome is None else row.outcome.repeats
    result = [repeat for repeat in repeats if repeat.seed == seed and repeat.method != "black-box"]
    return result[0].victim.right_after if result else b""


def with_findings(row: CaseRecord, findings: Mapping[tuple[Case, int], Finding]) -> CaseRecord:
    """Return the row of a built-in case with its findings; any other as it is."""
    if row.outcome is None or not is_node_id(row.node_id):
        return row
    repeats = tuple(
        repeat
        if (finding := findings.get((row.case, repeat.seed))) is None
        else replace(repeat, late=(*repeat.late, finding))
        for repeat in row.outcome.repeats
    )
    return replace_fields(row, outcome=replace(row.outcome, repeats=repeats))
