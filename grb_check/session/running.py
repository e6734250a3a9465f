"""Runs the cases of a session: what the fixtures call. Loads torch for the first case."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from grb_check import datasets
from grb_check.cases.case import Case
from grb_check.cases.node_ids import is_node_id
from grb_check.datasets import Source
from grb_check.errors import GrbCheckError, UsageError
from grb_check.gate.baselines.baseline import key_of
from grb_check.gate.limits import judge_beside
from grb_check.session import workers
from grb_check.session.collection import MARK, cases_of_marker, point_to
from grb_check.session.planning import SessionPlan, quiet_imports
from grb_check.session.progress import Ticker
from grb_check.session.pytest_private import captured, is_controller, is_worker
from grb_check.store.place import StorePlace, open_store
from grb_check.user_code.sources import definition

if TYPE_CHECKING:
    from grb_check.evaluation.evaluator import CaseResult, Evaluator
    from grb_check.failures.record_failure import Kept
    from grb_check.gate.limits import Verdict
    from grb_check.victims.subject import Subject


WORKSPACE: Final = "GITHUB_WORKSPACE"


class CaseRunner:
    """The evaluator of a session, and the models and datasets that it has loaded.

    Args:
        config: pytest's.
        plan: of the session.
    """

    def __init__(self, config: pytest.Config, plan: SessionPlan) -> None:
        self._config = config
        self._plan = plan
        self._subjects: dict[str, Subject] = {}
        self._sources: dict[str, Source] = {}
        self._ticker: Ticker | None = None

    def check(self) -> None:
        """Load every dataset and build every untrained model once, before any test runs.

        Raises:
            UsageError, DataError, ModelError: so that errors come before any work.
        """
        self._ticker = _ticker(self._config)  # the reporter exists, and nothing is captured yet
        groups = dict.fromkeys((case.model, case.dataset) for case in self._plan.cases.own)
        with quiet_imports():
            for label, dataset in groups:
                with captured(self._config):
                    loaded = self.evaluator.check(self.subject(label), self._source(dataset))
                self._plan.ranks.check_data(dataset, loaded)

    @property
    def device(self) -> str:
        """The device in use; empty before anything was loaded."""
        return str(self.evaluator.device) if "evaluator" in self.__dict__ else ""

    @cached_property
    def evaluator(self) -> Evaluator:
        """The evaluator; in a worker it shares victims and perturbations with the others."""
        with quiet_imports():  # these import torch, which collecting does not need
            from grb_check.evaluation.evaluator import Evaluator
            from grb_check.evaluation.shared_victims import SharedVictims
        settings = self._plan.settings
        store, shared = settings.store, None
        folder = workers.folder_of_run(self._config)
        if folder is not None:
            store = store or StorePlace(str(folder / "store"))
            shared = SharedVictims(folder / "victims")
        return Evaluator(
            store=open_store(store),
            device=settings.device,
            progress=self._ticker,
            attacks=self._plan.registry.own,
            shared=shared,
        )

    def case_of(self, request: pytest.FixtureRequest) -> Case:
        """Return the case of a test: its parameter, or that of its marker.

        Raises:
            UsageError: the test has neither.
        """
        if hasattr(request, "param"):
            case: Case = request.param
            return case
        marker = request.node.get_closest_marker(MARK)
        if marker is None:
            raise UsageError(
                "this test uses a grb fixture and has no case; mark it with "
                "@pytest.mark.grb(dataset=..., difficulty=..., attack=...)"
            )
        return cases_of_marker(marker, self.name_of, self._plan.registry)[0]

    def subject(self, label: str) -> Subject:
        """Return the model of that label, imported.

        Raises:
            UsageError: no model is named, or it cannot be imported.
        """
        from grb_check.victims.subject import as_subject  # imports torch

        settings = self._plan.settings
        if not settings.models:
            raise UsageError(
                "no model to attack: give --grb-model pkg.module:attr, or override the fixture "
                "grb_model in a conftest.py"
            )
        spec = settings.model(label)
        if spec.label not in self._subjects:
            self._subjects[spec.label] = as_subject(spec.target, spec.args, spec.label)
        return self._subjects[spec.label]

    def locate(self, item: pytest.Item) -> None:
        """Make the definition of the model's factory the place of a built-in test.

        The model is imported, which the test needs anyway. If that fails, the place stays as it is.
        """
        if self._plan.settings.models and is_node_id(item.nodeid):
            case = item.callspec.params["grb_case"]  # type: ignore[attr-defined]
            with suppress(GrbCheckError), quiet_imports(), captured(self._config):
                point_to(item, self.subject(case.model).source)

    def definition(self, label: str) -> tuple[str, int]:
        """Return the file and line where a model's factory is defined; empty and 0 if unknown.

        The path starts at the root of the repository in GitHub Actions, and at rootdir elsewhere.
        """
        subject = self._subjects.get(label)
        found = definition(subject.source) if subject is not None else None
        root = Path(os.environ.get(WORKSPACE) or self._config.rootpath).resolve()
        if found is None or not found[0].resolve().is_relative_to(root):
            return "", 0
        return found[0].resolve().relative_to(root).as_posix(), found[1]

    def evaluate(self, case: Case, model: Any, node: pytest.Item) -> CaseResult:
        """Run a case.

        Args:
            case: to run.
            model: value of the fixture `grb_model`.
            node: the test, whose marker may give the number of repeats.
        """
        marked = [
            mark.kwargs["repeats"] for mark in node.iter_markers(MARK) if "repeats" in mark.kwargs
        ]
        repeats = int(marked[0]) if marked else self._plan.settings.repeats
        return self.evaluator.case_result(
            _subject(model), self._source(case.dataset), case, repeats, self._plan.selected
        )

    def judged(self, node_id: str, result: CaseResult, cases: int) -> tuple[Verdict, CaseResult]:
        """Judge a case; the result is returned with all references if they were needed.

        Args:
            node_id: of the test.
            result: of the case.
            cases: of the run, which share the level of the default limit.
        """
        settings, outcome = self._plan.settings, result.outcome
        comparison = None
        if settings.baseline is not None:
            comparison = settings.baseline.compare(key_of(node_id, outcome.case), outcome)
        verdict, outcome = judge_beside(
            outcome, result.all_references, settings.gate, comparison, cases=cases
        )
        return verdict, result._replace(outcome=outcome)

    def expected_failure(self, node: pytest.Item, case: Case) -> str:
        """Return why a built-in case is expected to fail; empty if it is not.

        Under --runxfail none is, nor without the plugin of pytest that knows this option.
        """
        if self._config.getoption("runxfail", True) or not is_node_id(node.nodeid):
            return ""
        return self._plan.expected_failures.get(case.id, "")

    def keep(
        self, node: pytest.Item, model: Any, result: CaseResult, verdict: Verdict | None
    ) -> Kept | None:
        """Keep the perturbations that made a test fail, so that it can be replayed.

        Args:
            node: the test.
            model: value of the fixture `grb_model`.
            result: that the test failed on.
            verdict: of the gate; None if the test judges by itself.

        Returns:
            None if no evidence is wanted, or the perturbations are not the reason.
        """
        # Imports torch, which has run the case.
        from grb_check.failures.record_failure import Failure, Places, keep, worth_keeping

        settings = self._plan.settings
        if settings.evidence is None or not worth_keeping(verdict):
            return None
        failure = Failure(
            node_id=node.nodeid,
            subject=_subject(model),
            source=self._source(result.outcome.case.dataset),
            outcome=result.outcome,
            perturbations=result.perturbations,
            verdict=verdict,
        )
        here = self._config.invocation_params.dir
        places = Places(folder=settings.evidence, root=self._config.rootpath, here=here)
        shrink = settings.shrink and verdict is not None and not verdict.passed
        return keep(failure, self.evaluator, places, shrink=shrink)

    def name_of(self, dataset: str) -> str:
        """Return the name in case ids of a dataset, which may be given as a folder below rootdir.

        Raises:
            UsageError: there is no such dataset.
        """
        settings = self._plan.settings
        if dataset not in settings.registered_datasets:
            dataset = datasets.anchored(dataset, self._config.rootpath)
        source = settings.source(dataset)
        self._sources.setdefault(source.name, source)
        return source.name

    def close(self) -> None:
        """Release the terminal."""
        if self._ticker is not None:
            self._ticker.close()

    def _source(self, name: str) -> Source:
        return self._sources.get(name) or self._plan.settings.source(name)


def _subject(model: Any) -> Subject:
    """The value of the fixture `grb_model` as a subject."""
    from grb_check.victims.subject import Subject, as_subject  # imports torch

    return model if isinstance(model, Subject) else as_subject(model)


def _ticker(config: pytest.Config) -> Ticker | None:
    """Progress for people: on a terminal, unless workers or `-s` write to it.

    Not on Windows, whose console shows the sequences that move the cursor as text.
    """
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    shared = is_worker(config) or is_controller(config) or config.option.capture == "no"
    if reporter is None or shared or sys.platform == "win32" or not sys.stdout.isatty():
        return None
    writer = config.get_terminal_writer()
    return Ticker(
        os.dup(sys.stdout.fileno()), lambda: writer.width_of_current_line, writer.fullwidth
    )
