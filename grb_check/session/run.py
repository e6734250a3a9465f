"""One pytest session, as the hooks call it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from grb_check.cases.case import is_node_id
from grb_check.cases.case_record import ExpectedCases
from grb_check.cases.shards import ShardPlan
from grb_check.errors import UsageError, count
from grb_check.files.outputs import shown
from grb_check.files.text import fit_line
from grb_check.gate.baselines.baseline import Baseline
from grb_check.gate.limits import DROP_MARGIN
from grb_check.reports.annotations import annotation_lines, in_github_actions
from grb_check.runs.resources import SHARED_OUT, visible_gpus
from grb_check.session import collection, ending, worker_gpus
from grb_check.session.base import UserTests, base_baseline
from grb_check.session.planning import plan_session
from grb_check.session.plugin_hooks import PluginHooks
from grb_check.session.pytest_private import is_controller, is_worker, say
from grb_check.session.running import CaseRunner
from grb_check.settings.model_specs import ModelSpec
from grb_check.settings.settings import COMMAND_LINE, DEFAULT, Section, Settings, describe_given

# Options that the first lines are about.
HEADER_OPTIONS: Final = (
    *(
        "grb_model",
        "grb_model_args",
        "grb_suite",
        "grb_dataset",
        "grb_repeats",
        "grb_baseline",
        "grb_base",
    ),
)
FEATURES: Final = {
    "grb": "features normalised as in GRB",
    "rows": "features scaled so that rows sum to 1",
    "given": "features as given",
}
SECTIONS: Final[tuple[Section, ...]] = ("attacked", "data", "limits", "baselines", "ranks")


def header(settings: Settings, cases: int, device: str) -> list[str]:
    """Return the settings in force with their origins.

    Args:
        settings: of the run.
        cases: number of cases of the whole run.
        device: in use; empty if not known yet.
    """
    origin = settings.origins
    models = ", ".join(
        f"{f'{model.label}=' if len(settings.models) > 1 else ''}{model.target}"
        f"{f'({_arguments(model)})' if model.args else ''}"
        for model in settings.models
    )
    chosen = origin["grb_dataset"]
    if chosen == DEFAULT and origin["grb_suite"] != DEFAULT:
        chosen = "of the suite"
    names = ", ".join(source.name for source in settings.datasets)
    repeats = f" x {count(settings.repeats, 'repeat')} ({origin['grb_repeats']})"
    used = device if settings.device != "auto" else f"auto{f' = {device}' if device else ''}"
    return [
        f"grb model: {models} ({origin['grb_model']})",
        f"grb datasets: {names} ({chosen}); {count(cases, 'case')} of suite "
        f"{settings.suite} ({origin['grb_suite']}){repeats}",
        f"grb device: {used} ({origin['grb_device']}); "
        f"store: {_store(settings)} ({origin['grb_store']})",
        *_data(settings),
        *_pack(settings),
        *_baseline(settings),
        *_given(settings),
    ]


def shard_lines(plan: ShardPlan, times: Path | None, *, others: bool) -> list[str]:
    """Return the part of a run that this is; nothing for a whole run.

    Args:
        plan: of the run.
        times: file of the durations by which the parts are balanced; None without one.
        others: whether tests other than the built-in cases may run as well.
    """
    if plan.shard is None:
        return []
    part_size, every = len(plan.part), len(plan.cases)
    by = "taken as equally long" if times is None else f"by the times in {times.name}"
    lines = [f"grb shard: {plan.shard}, {part_size} of {count(every, 'case')}, {by}"]
    if others:
        lines.append(
            "grb shard: the repository's own tests are not divided and run in every part; "
            "--grb-only leaves them out"
        )
    return lines


def _pack(settings: Settings) -> list[str]:
    pack = settings.pack
    if pack is None:
        return []
    return [
        f"grb pack: {shown(pack.path)}, {pack.content}, digest {pack.digest[:16]} "
        f"({settings.origins['grb_pack']})"
    ]


def _data(settings: Settings) -> list[str]:
    """How features are scaled, how the split is made, and what models learn from."""
    groups: dict[str, list[str]] = {}
    for source in settings.datasets:
        drawn = "80/20" if source.of_graphs else "GRB's"
        split = {
            "grb": "GRB's split",
            "given": "its own split",
            None: f"its own split if it has one, else {drawn}",
        }[source.split]
        learned = ", learned transductively" * (source.places.training == "transductive")
        about = f"{FEATURES[source.features]}, {split}{learned}"
        groups.setdefault(about, []).append(source.name)
    return [
        fit_line(f"grb protocol: {', '.join(names)}: {about}") for about, names in groups.items()
    ]


def _given(settings: Settings) -> list[str]:
    """Other options that were given, and the default limit if it is in force."""
    shown = {name: text for name, text in settings.given.items() if name not in HEADER_OPTIONS}
    lines = [
        fit_line(f"grb {text} ({origin})")
        for text, origin in describe_given(shown, settings.origins, SECTIONS)
    ]
    if settings.gate.max_drop is None:
        judges = settings.baseline is not None and not settings.baseline.writes
        instead = "; where the baseline has an entry, no loss beyond its margin instead" * judges
        lines.append(
            f"grb limit: drop of the least robust reference + {DROP_MARGIN:.0%} + interval "
            f"(default){instead}"
        )
    return lines


def _baseline(settings: Settings) -> list[str]:
    baseline = settings.baseline
    if baseline is None:
        return []
    if settings.base is not None:
        content = "the same files, not measured" if baseline.same else _entries(baseline)
        return [f"grb base: {settings.base}, {content} ({settings.origins['grb_base']})"]
    what = _entries(baseline)
    if baseline.writes:
        what = "to be written" if baseline.requested else "not there yet: to be written"
        what += ", nothing is compared"
    where = shown(baseline.path)
    return [f"grb baseline: {where}, {what} ({settings.origins['grb_baseline']})"]


def _entries(baseline: Baseline) -> str:
    return f"{count(len(baseline.entries), 'entry', 'entries')}, margin {baseline.margin:g} points"


def _arguments(model: ModelSpec) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in model.args.items())


def _store(settings: Settings) -> str:
    store = settings.store
    if store is None:
        return "off"
    return f"{shown(Path(store.location))}{', read only' if store.read_only else ''}"


class Run:
    """The parts of one session.

    Args:
        config: pytest's.

    Attributes:
        plan: settings and cases.
        runner: of the cases.
        expected_cases: the cases that must be reported, and the reports.
        cases: number of cases of the whole run, users' own tests included, which share the level of
            the default limit.

    Raises:
        UsageError, DataError: an option or ini value is wrong.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.plan = plan_session(config)
        self.runner = CaseRunner(config, self.plan)
        self.expected_cases = ExpectedCases()
        self._hooks = PluginHooks(config)
        self.cases = 1
        self._ending: ending.Ending | None = None

    def start(self) -> None:
        """Check models and data before any test runs.

        Raises:
            UsageError, DataError, ModelError: see `CaseRunner.check`.
        """
        if self.plan.settings.jobs is not None and is_controller(self._config):
            raise UsageError(
                "--grb-jobs measures in processes of its own, and so do the workers of "
                "pytest-xdist: leave -n away, or give -n 0"
            )
        if is_worker(self._config) or self._config.option.collectonly:
            return
        settings = self.plan.settings
        requested = self.plan.cases.cases or settings.origins["grb_base"] == COMMAND_LINE
        if settings.base is not None and requested and is_controller(self._config):
            raise UsageError(
                "--grb-base and pytest-xdist: leave -n away, or give -n 0; --grb-jobs measures in "
                "several processes"
            )
        self.runner.check()
        if settings.base is not None and self.plan.cases.cases:
            self._measure_base()

    def collected(self, items: Sequence[pytest.Item]) -> None:
        """Take note of the tests that will run, and measure users' own at the base.

        Raises:
            UsageError, DataError: the base cannot be measured.
        """
        self.expected_cases.expect(item.nodeid for item in items)
        idle = self._config.option.collectonly or is_worker(self._config)
        if self.plan.settings.base is not None and not idle:
            judged = [item for item in items if "grb_verdict" in getattr(item, "fixturenames", ())]
            user_items = [item for item in judged if not is_node_id(item.nodeid)]
            tests = [item for item in user_items if item.get_closest_marker("skip") is None]
            if tests:
                self._measure_base(tests)
        self.runner.plan_tasks(items)

    def _measure_base(self, tests: Sequence[pytest.Item] = ()) -> None:
        """Measure at the base: users' own tests, or without any the built-in cases.

        Raises:
            UsageError, DataError: it cannot be measured.
        """
        runner = self.runner
        data = runner.data_of(tests)
        paths = [source.path for source in data if source.path != Path()]
        of_tests = UserTests(items=tests, data=paths)
        known = runner.environment | runner.fingerprints
        known |= {source.name: fingerprint for source, fingerprint in data.items()}
        baseline = base_baseline(self._config, self.plan, known, runner.show, of_tests)
        self.plan = replace(self.plan, settings=replace(self.plan.settings, baseline=baseline))
        self.runner.plan = self.plan

    def header(self) -> list[str]:
        """Return lines for pytest's header; none if no model is named."""
        plan, device = self.plan, self.runner.place
        if plan.left_out:
            return [
                "grb: no cases, because single files were named and the model comes from the ini "
                "file, or because of -m 'not grb'; --grb-only runs them"
            ]
        if not plan.cases.cases:
            return []
        lines = header(plan.settings, len(plan.cases.cases), device)
        lines += shard_lines(plan.cases, plan.durations, others=bool(self._config.args))
        if self.runner.workers:
            lines.append(f"grb measures in: {self.runner.workers}")
        if is_controller(self._config) and device in SHARED_OUT:
            lines += worker_gpus.gpu_lines(visible_gpus())
        return lines

    def add_items(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Append the built-in cases to the collected tests, and count all before any is left out.

        Shards and workers get the same number: `plan.cases.cases` are those of the whole run, and
        every part collects all of the users' own tests.
        """
        collection.check_marked(items)
        user_tests = sum("grb_case" in getattr(item, "fixturenames", ()) for item in items)
        self.cases = max(1, user_tests + len(self.plan.cases.cases))
        plan = self.plan
        items.extend(collection.built_in_items(session, plan.cases.part))

    def book(self, report: pytest.TestReport) -> None:
        """Enter a report, from this process or a worker, and pass its figures on to plugins."""
        row = ending.book(self.expected_cases, report)
        if row is not None and row.outcome is not None and report.when == "call":
            self._hooks.call(
                "pytest_grb_outcome",
                passing=(pytest.exit.Exception, KeyboardInterrupt),
                outcome=row.outcome,
                verdict=row.verdict,
            )

    def finish(self, session: pytest.Session) -> None:
        """Judge, set the exit status, write the reports and pass the record on to plugins."""
        if self._config.option.collectonly:
            return
        measured = self.runner.environment if self.expected_cases.rows else {}
        self._ending = ending.finish(
            session, self.plan, self.expected_cases, measured, self.runner.definition
        )
        # Whatever it raises, Ctrl-C during an upload too: pytest's summary is still to come.
        self._hooks.call("pytest_grb_record", record=self._ending.digest.record)
        if self._hooks.failures and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def summarise(self, reporter: pytest.TerminalReporter) -> None:
        """Write the tables below pytest's own reports."""
        if self.runner.measured_in_process:
            names = ", ".join(self.runner.measured_in_process)
            reporter.write_line(
                f"grb: {names} was measured in pytest's own process: "
                f"only a model that --grb-model names can be measured elsewhere"
            )
        if self._ending is not None:
            ending.summarise(reporter, self._ending)
        for line in self._hooks.failures:
            reporter.write_line(f"grb: {line}", red=True)

    def close(self) -> None:
        """Annotate the run in GitHub Actions, whatever pytest shows, and release what it holds."""
        if self._ending is not None and in_github_actions(os.environ):
            say(self._config, annotation_lines(self._ending.digest))
        self.runner.close()
