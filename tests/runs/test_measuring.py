"""A run whose tasks are measured."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import cached_property

import pytest
from outcome_factory import outcome

from grb_check import datasets
from grb_check.cases.case import Case
from grb_check.cases.outcomes import IN_DOUBT
from grb_check.cases.repeat_results import ENOUGH, CaseFacts, CaseResult, RepeatResult
from grb_check.errors import ModelError
from grb_check.runs.measuring import Measuring
from grb_check.runs.steps import Checked, check, references
from grb_check.runs.tasks import Answer, ModelOnDataset, Task
from grb_check.runs.workers.calls import Pending
from grb_check.settings.model_specs import ModelSpec
from grb_check.settings.settings import RunSettings

FACTS = CaseFacts(targets=100, majority=0.1, dataset="f", origin="", attack="", threat="")
PAIRS = (("injection", "rnd"), ("injection", "pgd"), ("injection", "worst"))
RND, PGD, WORST = (Case("synthetic-cora", "easy", *pair) for pair in PAIRS)
LEFT = {RND: 0.6, PGD: 0.4}


class Later:
    """Answers when it is asked, once."""

    def __init__(self, calls: Imitation, task: Task) -> None:
        self._calls = calls
        self._task = task

    def done(self) -> bool:
        return True

    @cached_property
    def _answer(self) -> Answer:
        return Answer(
            values={case: self._calls.value(case, self._task.seed) for case in self._task.cases},
            device="cpu",
            environment={"threads": str(1 + self._task.seed)},
        )

    def result(self) -> Answer:
        return self._answer


class Known:
    """An answer that is there."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def done(self) -> bool:
        return True

    def result(self) -> Answer:
        return self._answer


class Checking:
    """Finds a model in order, or refuses it."""

    def __init__(self, task: Task, *, refused: bool) -> None:
        self._task = task
        self._refused = refused

    def done(self) -> bool:
        return True

    def result(self) -> Answer:
        if self._refused:
            raise ModelError(f"{self._task.cases[0].model} cannot be built")
        found = Checked(fingerprint="f", definition=None)
        return Answer(values={self._task.cases[0]: found}, device="cpu", environment={})


class Imitation:
    """Calls that note what is measured; one case may fail."""

    name = ""
    width = 0
    steps = ""

    def __init__(self, failing: Case | None = None, refused: tuple[str, ...] = ()) -> None:
        self.run: list[tuple[Case, int]] = []
        self.beside: list[tuple[int, Collection[str]]] = []
        self._failing = failing
        self._refused = refused

    def submit(self, task: Task) -> Pending:
        if task.step is check:
            return Checking(task, refused=task.cases[0].model in self._refused)
        if task.step is references:
            values = {case: result for case, (result, _) in task.given.items()}
            self.beside += [(task.seed, kinds) for _, kinds in task.given.values()]
            return Known(Answer(values=values, device="cpu", environment={"threads": "1"}))
        return Later(self, task)

    def value(self, case: Case, seed: int) -> RepeatResult | Exception:
        self.run.append((case, seed))
        if case == self._failing:
            return ModelError("its own fault")
        measurement = outcome([(0.8, LEFT[replace(case, model="")])], [(0.8, 0.5)], case).repeats[0]
        measurement = replace(measurement, seed=seed, perturbation=case.attack)
        return RepeatResult(
            facts=FACTS,
            measurement=measurement,
            warnings=(),
            attack=case.attack,
            methods=(),
            perturbation=case.attack.encode(),
        )

    def close(self) -> None:
        """Nothing to end."""


def measuring(calls: Imitation) -> Measuring:
    on = ModelOnDataset(ModelSpec(label="m", target="pkg:build"), datasets.find("synthetic-cora"))
    measurements = Measuring(calls, RunSettings(device="cpu", selected=PAIRS), lambda _: on)
    measurements.submit_all(dict.fromkeys((RND, PGD, WORST), 2), {})
    return measurements


def test_the_worst_is_put_together_from_members_that_were_measured() -> None:
    """None is measured twice, and each repeat has its strongest."""
    calls = Imitation()
    measurements = measuring(calls)
    assert calls.run == []  # nothing before it is asked for
    pgd = measurements.result(PGD, "m", 2).results
    worst = measurements.result(WORST, "m", 2).results
    assert [repeat.measurement.member for repeat in worst] == ["pgd", "pgd"]
    assert [repeat.perturbation for repeat in worst] == [repeat.perturbation for repeat in pgd]
    measurements.result(RND, "m", 2)
    assert [call for call in calls.run if call[0] == PGD] == [(PGD, 0), (PGD, 1)]
    assert WORST not in {case for case, _ in calls.run}


def test_a_case_that_fails_raises_its_error_each_time() -> None:
    """And the environments that tasks ran in are known."""
    measurements = measuring(Imitation(failing=RND))
    for _ in range(2):
        with pytest.raises(ModelError, match="its own fault"):
            measurements.result(RND, "m", 2)
    measurements.result(PGD, "m", 2)
    assert measurements.environments == [{"threads": "1"}, {"threads": "2"}]
    assert list(measurements.devices) == ["cpu"]


def test_a_case_in_doubt_is_measured_beside_further_references_and_then_again() -> None:
    """Beside quick ones first. No repeat is measured twice, and each is beside all references."""
    calls = Imitation()
    result: CaseResult | None = measuring(calls).result(PGD, "m", 2)
    steps = []
    while result is not None:
        steps.append(result)
        result = result.further() if result.further is not None else None
    assert [len(step.results) for step in steps] == [2, 2, 2, ENOUGH]
    assert [step.beside_all for step in steps] == [False, False, True, True]
    assert [repeat.measurement.seed for repeat in steps[-1].results] == [*range(ENOUGH)]
    assert calls.run == [(PGD, seed) for seed in range(ENOUGH)]
    quick, every = IN_DOUBT
    assert calls.beside[:2] == [(0, quick), (1, quick)]
    assert calls.beside[2:] == [(seed, every) for seed in range(ENOUGH)]
    assert steps[-1].results[-1].perturbation == b"pgd"


class BesideSome(Imitation):
    """These repeats alone have another reference."""

    def __init__(self, seeds: Collection[int]) -> None:
        super().__init__()
        self._seeds = seeds

    def submit(self, task: Task) -> Pending:
        if task.step is not references:
            return super().submit(task)
        values: dict[Case, RepeatResult] = {}
        for case, (result, _) in task.given.items():
            measured = result.measurement
            more = {"gat": measured.victim} if task.seed in self._seeds else {}
            measured = replace(measured, references={**measured.references, **more})
            values[case] = replace(result, measurement=measured)
        return Known(Answer(values=values, device="cpu", environment={"threads": "1"}))


@pytest.mark.parametrize("seeds", [(0,), (0, 1), (5,)])
def test_a_reference_that_a_repeat_lacks_is_of_no_repeat(seeds: tuple[int, ...]) -> None:
    """As where the others had learned the data in a part of the repeats, further ones too."""
    result = measuring(BesideSome(seeds)).result(PGD, "m", 2)
    found = []
    while result.further is not None:
        result = result.further()
        found.append([[*row.references] for row in result.outcome.repeats])
    both = ["gcn", "gat"] if seeds == (0, 1) else ["gcn"]
    assert found == [[both] * 2, [both] * 2, [["gcn"]] * ENOUGH]


def of_models(*refused: str) -> tuple[Measuring, Imitation, tuple[Case, Case]]:
    """Two models, some of which are refused when they are checked."""
    calls = Imitation(refused=refused)
    source = datasets.find("synthetic-cora")

    def on(case: Case) -> ModelOnDataset:
        return ModelOnDataset(ModelSpec(label=case.model, target="pkg:build"), source)

    settings = RunSettings(device="cpu", selected=PAIRS)
    return Measuring(calls, settings, on), calls, (replace(RND, model="a"), replace(RND, model="b"))


def test_a_model_that_is_refused_does_not_end_the_run_of_another() -> None:
    """Its cases raise the error, and nothing of it is measured."""
    measurements, calls, (first, second) = of_models("a")
    assert list(measurements.check((first, second), 2)) == [second]
    measurements.submit_all({first: 2, second: 2}, {})
    with pytest.raises(ModelError, match="a cannot be built"):
        measurements.result(first, "a", 2)
    assert len(measurements.result(second, "b", 2).results) == 2
    assert {case for case, _ in calls.run} == {second}


def test_a_run_all_of_whose_models_are_refused_ends_with_the_first_error() -> None:
    """Before any work."""
    measurements, calls, cases = of_models("a", "b")
    with pytest.raises(ModelError, match="a cannot be built"):
        measurements.check(cases, 2)
    assert calls.run == []
