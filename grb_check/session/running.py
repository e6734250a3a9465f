"""Runs the cases of a session: what the fixtures call. Loads torch for the first case."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from grb_check import datasets
from grb_check.cases.case import Case
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.node_ids import is_node_id
from grb_check.cases.repeat_results import CaseResult
from grb_check.datasets import Source
from grb_check.errors import GrbCheckError, UsageError
from grb_check.gate.baselines.baseline import key_of
from grb_check.gate.limits import judge_result
from grb_check.ranking.comparison_models import check_data
from grb_check.reports.record import Definition
from grb_check.runs.base import BaseCase, BaseSide
from grb_check.runs.inputs import with_digests
from grb_check.runs.looking import Looking
from grb_check.runs.measuring import Measuring, joined
from grb_check.runs.start import calls_for
from grb_check.runs.tasks import ModelOnDataset
from grb_check.runs.workers.in_process import Inline
from grb_check.session.collection import marked_arguments, marked_cases, point_to
from grb_check.session.planning import SessionPlan
from grb_check.session.progress import LogLines, Ticker, progress_writer
from grb_check.session.pytest_private import captured, overridden
from grb_check.settings.model_specs import ModelSpec
from grb_check.settings.selecting import source_of
from grb_check.settings.settings import RunSettings, spec_of
from grb_check.user_code.factories import quiet_imports
from grb_check.user_code.sources import definition

if TYPE_CHECKING:
    from grb_check.attacks.threat import Perturbation
    from grb_check.attacks.verdicts import Tell
    from grb_check.cases.verdicts import Verdict
    from grb_check.evaluation.evaluator import Evaluator
    from grb_check.failures.record_failure import SavedFailure
    from grb_check.victims.subject import Subject


WORKSPACE: Final = "GITHUB_WORKSPACE"


class CaseRunner:
    """Measures the cases of a session: here, or in other processes.

    Args:
        config: pytest's.
        plan: of the session.
    """

    def __init__(self, config: pytest.Config, plan: SessionPlan) -> None:
        self._config = config
        self.plan = plan
        self._subjects: dict[str, Subject] = {}
        self._sources: dict[str, Source] = {}
        self._definitions: dict[str, tuple[str, int] | None] = {}  # that checks have found
        self.progress_writer: Ticker | LogLines | None = None
        self._remote: Measuring | None = None  # by workers
        # Names of models that cannot be sent to other processes.
        self.measured_in_process: list[str] = []
        self.fingerprints: dict[str, str] = {}  # of the datasets that were checked
        self.metrics: dict[str, str] = {}  # of datasets whose figures are no accuracies
        self.base: BaseSide | None = None
        self.looking: Looking | None = None  # at the run and its base

    def check(self) -> None:
        """Load every dataset and build every untrained model once, before any test runs.

        Raises:
            UsageError, DataError, ModelError: so that errors come before any work.
        """
        self.progress_writer = progress_writer(self._config)  # nothing is captured yet
        settings = self.plan.settings
        if settings.execution.elsewhere:
            calls = calls_for(self._settings, settings.repeats * len(self.plan.cases.part))
            self._remote = Measuring(calls, self._settings, self._on_dataset, self.progress_writer)
        with quiet_imports(), captured(self._config):
            checked = self._measuring.check(self.plan.cases.part, settings.repeats)
        for case, result in checked.items():
            self._definitions[settings.model(case.model).label] = result.definition
            check_data(self.plan.boards, case.dataset, result.fingerprint)
            self.fingerprints[case.dataset] = result.fingerprint
            if result.metric:
                self.metrics[case.dataset] = result.metric

    def submit_tasks(self, items: Iterable[pytest.Item]) -> None:
        """Plan the cases of these tests, and give them to the workers, if there are any."""
        repeats: dict[Case, int] = {}
        for item in items:
            case = self._planned_case(item)
            if case is not None:
                repeats[case] = max(repeats.get(case, 0), self._repeats(item))
        if self.plan.registry.named != self._settings.execution.user_attacks:  # by markers
            self._settings = with_digests(self.plan.settings, self.plan.registry)
            self._measuring.settings = self._settings
        self._measuring.submit_all(repeats, self.plan.seconds)

    def _planned_case(self, item: pytest.Item) -> Case | None:
        """The case that a test will ask for, as far as that is known before it runs."""
        if "grb_outcome" not in getattr(item, "fixturenames", ()):
            return None
        skipped = item.get_closest_marker("skip") is not None
        if skipped or not self.plan.settings.models or overridden(item, "grb_model"):
            return None
        return self._case_of(item)

    def _case_of(self, item: pytest.Item) -> Case | None:
        """The case of a test; None if it has none, or its marker is wrong, which fails the test."""
        callspec = getattr(item, "callspec", None)
        if callspec is not None and "grb_case" in callspec.params:
            result: Case = callspec.params["grb_case"]
            return result
        with suppress(GrbCheckError):
            cases = marked_cases(item, self.name_of, self.plan.registry)
            return cases[0] if len(cases) == 1 else None
        return None

    def _data_of(self, names: Collection[str]) -> dict[str, str]:
        """Return the fingerprints of datasets by name.

        Raises:
            DataError: one cannot be loaded.
        """
        with quiet_imports(), captured(self._config):
            return {
                name: self.fingerprints.get(name)
                or self._evaluator.dataset(self._source(name)).fingerprint()
                for name in sorted(names)
            }

    def _widened(self, names: Collection[str]) -> RunSettings:
        """Return the settings of tasks with these datasets, which markers may have added."""
        settings = self._settings
        known = {spec.name for spec in settings.datasets}
        added = tuple(spec_of(self._source(name)) for name in sorted(names) if name not in known)
        return replace(settings, datasets=(*settings.datasets, *added))

    def base_cases(self, items: Iterable[pytest.Item]) -> tuple[list[BaseCase], dict[str, str]]:
        """Return the cases of users' own tests that ask for a verdict, for the base.

        Returns:
            The cases; and, of all tests, key of the case -> why it cannot be measured there.
        """
        cases, unmeasured = [], {}
        for item in items:
            judged = "grb_verdict" in getattr(item, "fixturenames", ())
            skipped = item.get_closest_marker("skip") is not None
            case = self._case_of(item) if judged and not skipped else None
            if case is None:
                continue
            if not self.plan.settings.models or overridden(item, "grb_model"):
                unmeasured[key_of(item.nodeid, case)] = (
                    "not compared with the base: only a fixture makes the model of this test; "
                    "name it with --grb-model"
                )
            elif not is_node_id(item.nodeid):  # the built-in ones are measured before
                cases.append(BaseCase(case=case, repeats=self._repeats(item), test=item.nodeid))
        return cases, unmeasured

    @property
    def place(self) -> str:
        """Devices that cases are measured on, for pytest's header; empty until known."""
        return ", ".join(self._measuring.devices)

    @property
    def workers(self) -> str:
        """Name of the workers; empty without any."""
        return self._measuring.calls.name

    @property
    def environment(self) -> dict[str, str]:
        """The environment that measured, see `measured_with`."""
        result = self._measuring.environments
        if self.measured_in_process or not result:
            result = [*result, self._evaluator.environment]
        return joined(result)

    @cached_property
    def _settings(self) -> RunSettings:
        """The settings as tasks get them."""
        return with_digests(self.plan.settings, self.plan.registry)

    @cached_property
    def _inline(self) -> Inline:
        """Runs tasks in this process."""
        writer, attacks = self.progress_writer, self.plan.registry
        if writer is None:
            return Inline(self._settings, attacks=attacks)

        def step(text: str) -> AbstractContextManager[Tell]:
            left = self._in_process.left
            return writer(f"{left}; {text}" if left else text)

        return Inline(self._settings, step, attacks)

    @cached_property
    def _in_process(self) -> Measuring:
        """Measures in this process."""
        return Measuring(self._inline, self._settings, self._on_dataset, self.progress_writer)

    @property
    def _measuring(self) -> Measuring:
        """Measures the models that settings name."""
        return self._remote or self._in_process

    @property
    def _evaluator(self) -> Evaluator:
        """The evaluator of this process; torch is imported with it."""
        return self._inline.process.evaluator

    def case_of(self, request: pytest.FixtureRequest) -> Case:
        """Return the case of a test: its parameter, or that of its marker.

        Raises:
            UsageError: the test has neither.
        """
        if hasattr(request, "param"):
            case: Case = request.param
            return case
        cases = marked_cases(request.node, self.name_of, self.plan.registry)
        if not cases:
            raise UsageError(
                "this test uses a grb fixture and has no case; mark it with "
                "@pytest.mark.grb(dataset=..., difficulty=..., attack=...)"
            )
        if len(cases) > 1:
            raise UsageError(
                f"@pytest.mark.grb has {len(cases)} cases, and this test cannot be made once for "
                f"each, as a method of a unittest.TestCase; give one value for each argument"
            )
        return cases[0]

    def subject(self, label: str) -> Subject:
        """Return the model of that label, imported.

        Raises:
            UsageError: no model is named, or it cannot be imported.
        """
        from grb_check.victims.subject import as_subject  # imports torch

        settings = self.plan.settings
        if not settings.models:
            raise UsageError(
                "no model to attack: give --grb-model pkg.module:attr, or override the fixture "
                "grb_model in a conftest.py"
            )
        spec = settings.model(label)
        if spec.label not in self._subjects:
            self._subjects[spec.label] = as_subject(spec.target, spec.arguments, spec.label)
        return self._subjects[spec.label]

    def model(self, label: str, node: pytest.Item) -> Subject | ModelSpec:
        """Return the model of that label for a test.

        For a built-in test that is measured elsewhere it is not imported here.

        Raises:
            UsageError: no model is named, or it cannot be imported.
        """
        if self.workers and is_node_id(node.nodeid):
            return self.plan.settings.model(label)
        return self.subject(label)

    def locate(self, item: pytest.Item) -> None:
        """Make the definition of the model's factory the place of a built-in test.

        The model is imported, which the test needs anyway. If that fails, the place stays as it is.
        """
        if self.plan.settings.models and is_node_id(item.nodeid):
            params = item.callspec.params  # type: ignore[attr-defined]
            with suppress(GrbCheckError), quiet_imports(), captured(self._config):
                point_to(item, self._definition(params["grb_case"].model))

    def _definition(self, label: str) -> tuple[Path, int] | None:
        """The file and line of a model's factory."""
        name = self.plan.settings.model(label).label
        if name not in self._definitions and not self.workers:  # as in a worker of pytest-xdist
            return definition(self.subject(label).source)
        reported = self._definitions.get(name)
        return None if reported is None else (Path(reported[0]), reported[1])

    @property
    def definitions(self) -> dict[str, Definition]:
        """The places where factories of models are defined, by label, as far as they are known.

        Paths start at the root of the repository in GitHub Actions, and at rootdir elsewhere.
        """
        root = Path(os.environ.get(WORKSPACE) or self._config.rootpath).resolve()
        result = {}
        for model in self.plan.settings.models:
            known = model.label in self._subjects or model.label in self._definitions
            place = self._definition(model.label) if known else None
            if place is not None and place[0].resolve().is_relative_to(root):
                file = place[0].resolve().relative_to(root).as_posix()
                result[model.label] = Definition(file=file, line=place[1])
        return result

    def evaluate(self, case: Case, model: Any, node: pytest.Item) -> CaseResult:
        """Run a case.

        Args:
            case: to run.
            model: value of the fixture `grb_model`.
            node: the test, whose marker may give the number of repeats.
        """
        repeats, spec = self._repeats(node), self._travelling(model)
        if spec is not None:
            return self._measuring.result(case, spec.label, repeats)
        subject = self.imported(model)
        if self.workers and subject.name not in self.measured_in_process:
            self.measured_in_process.append(subject.name)
        on = ModelOnDataset(subject, self._source(case.dataset))
        return self._in_process.result(case, subject.name, repeats, on)

    def _repeats(self, node: pytest.Item) -> int:
        marked = marked_arguments(node) or {}
        return int(marked.get("repeats", self.plan.settings.repeats))

    def _travelling(self, model: Any) -> ModelSpec | None:
        """The model as other processes know it; None if they cannot."""
        if isinstance(model, ModelSpec):
            return model
        known = [label for label, subject in self._subjects.items() if subject is model]
        return self.plan.settings.model(known[0]) if known else None

    def imported(self, model: Any) -> Subject:
        """Return the value of the fixture `grb_model` as a subject."""
        from grb_check.victims.subject import Subject, as_subject  # imports torch

        if isinstance(model, ModelSpec):
            return self.subject(model.label)
        return model if isinstance(model, Subject) else as_subject(model)

    def judged(self, node_id: str, result: CaseResult, cases: int) -> tuple[Verdict, CaseResult]:
        """Judge a case; the result is returned with what was measured for the verdict besides.

        Args:
            node_id: of the test.
            result: of the case.
            cases: of the run, which share the level of the default limit.
        """
        baseline, outcome = self.plan.inputs.baseline, result.outcome
        key, comparison = key_of(node_id, outcome.case), None
        if self.looking is not None:
            comparison, result = self.looking.compare(key, result)
        elif baseline is not None:
            comparison = baseline.compare(key, outcome)
        return judge_result(result, self.plan.settings.gate, comparison, cases=cases)

    def measure_base(
        self,
        cases: Sequence[BaseCase],
        unmeasured: Mapping[str, str],
        run_size: int,
    ) -> None:
        """Measure cases at the base.

        Args:
            cases: to measure.
            unmeasured: node id of a user's own test -> why its case cannot be measured there.
            run_size: number of cases of the whole run.

        Raises:
            UsageError, DataError: it cannot be measured.
        """
        inputs = self.plan.inputs
        assert inputs.revision is not None
        cwd = self._config.invocation_params.dir
        self.base = BaseSide(inputs.revision, cwd, self.progress_writer)
        names = {base_case.case.dataset for base_case in cases}
        data = self._data_of(names)
        known = self.environment | self.fingerprints | data
        widened = replace(inputs, settings=self._widened(names))
        baseline = self.base.baseline(widened, cases, known, run_size).without(unmeasured)
        self.plan = replace(self.plan, inputs=replace(inputs, baseline=baseline))
        strict = self.plan.settings.gate.inconclusive == "fail"
        self.looking = Looking(self.base, self._measuring, baseline, strict=strict)

    def look_at_all(self, rows: Sequence[CaseRecord]) -> None:
        """Look at all cases together, if a base is there; the baseline of the plan follows.

        Args:
            rows: of the run, which all have come back.
        """
        if self.looking is None or self.plan.cases.shard is not None:
            return
        try:
            self.looking.look_at_all(rows, self.plan.cases.cases)
        finally:
            inputs = replace(self.plan.inputs, baseline=self.looking.baseline)
            self.plan = replace(self.plan, inputs=inputs)

    def expected_failure(self, node: pytest.Item, name: str) -> str:
        """Return why a built-in case is expected to fail; empty if it is not.

        Under --runxfail none is, nor without the plugin of pytest that knows this option.
        """
        if self._config.getoption("runxfail", True) or not is_node_id(node.nodeid):
            return ""
        return self.plan.expected_failures.get(name, "")

    def save(
        self, node: pytest.Item, model: Any, result: CaseResult, verdict: Verdict | None
    ) -> SavedFailure | None:
        """Save the perturbations that made a test fail, so that it can be replayed.

        Args:
            node: the test.
            model: value of the fixture `grb_model`.
            result: that the test failed on.
            verdict: of the gate; None if the test judges by itself.

        Returns:
            None if no evidence is wanted, or the perturbations are not the reason.
        """
        # Imports torch, which has run the case.
        from grb_check.failures.record_failure import FailedTest, RunFolders, save, worth_saving

        execution = self.plan.settings.execution
        if not execution.evidence or not worth_saving(verdict):
            return None
        failure = FailedTest(
            node_id=node.nodeid,
            subject=self.imported(model),
            source=self._source(result.outcome.case.dataset),
            outcome=result.outcome,
            perturbations=self._perturbations(self.imported(model), result),
            verdict=verdict,
        )
        invocation_dir = self._config.invocation_params.dir
        folders = RunFolders(
            folder=Path(execution.evidence), root=self._config.rootpath, cwd=invocation_dir
        )
        shrink = execution.shrink and verdict is not None and not verdict.passed
        return save(failure, self._evaluator, folders, shrink=shrink)

    def name_of(self, dataset: str) -> str:
        """Return the name in case ids of a dataset, which may be given as a folder below rootdir.

        Raises:
            UsageError: there is no such dataset.
        """
        settings = self.plan.settings
        if dataset not in settings.execution.registered_datasets:
            dataset = datasets.anchored(dataset, self._config.rootpath)
        source = source_of(settings, dataset)
        self._sources.setdefault(source.name, source)
        return source.name

    def close(self) -> None:
        """End all work, and release the terminal."""
        if self.base is not None:
            self.base.close()
        if self._remote is not None:
            self._remote.close()
        if self.progress_writer is not None:
            self.progress_writer.close()

    def _perturbations(self, subject: Subject, result: CaseResult) -> tuple[Perturbation, ...]:
        """Perturbations of all repeats; those that an interrupted run has made are made again."""
        # Imports torch, which has run the case or is needed for the evidence.
        from grb_check.store.perturbation_bytes import from_bytes

        case, repeats = result.outcome.case, len(result.results)
        source = self._source(case.dataset)
        perturbations = []
        for repeat in result.results:
            content = repeat.perturbation
            if not content:
                attack = replace(case, attack=repeat.attack)
                seed = repeat.measurement.seed
                again = self._evaluator.repeat(subject, source, attack, seed, repeats=repeats)
                content = again.perturbation
            perturbations.append(from_bytes(content))
        return tuple(perturbations)

    def _on_dataset(self, case: Case) -> ModelOnDataset:
        return ModelOnDataset(self.plan.settings.model(case.model), self._source(case.dataset))

    def _source(self, name: str) -> Source:
        if name not in self._sources:  # found once: a download changes what would be found
            self._sources[name] = source_of(self.plan.settings, name)
        return self._sources[name]
