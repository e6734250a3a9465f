"""One pytest session, as the hooks call it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from grb_check.cases.expected_cases import ExpectedCases
from grb_check.cases.node_ids import node_id_of
from grb_check.errors import UsageError
from grb_check.files.text import fit_line
from grb_check.reports.annotations import annotation_lines, in_github_actions
from grb_check.runs.base import BaseCase
from grb_check.runs.finish import exit_status
from grb_check.runs.workers.resources import SHARED_OUT, visible_gpus
from grb_check.session import collection, ending, worker_gpus
from grb_check.session.header import base_lines, header, shard_lines
from grb_check.session.planning import plan_session
from grb_check.session.plugin_hooks import PluginHooks
from grb_check.session.pytest_private import is_controller, is_worker, say
from grb_check.session.running import CaseRunner
from grb_check.session.stopping import stop_on_sigterm
from grb_check.settings.options import COMMAND_LINE


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
        self._undo_sigterm: Callable[[], None] = lambda: None
        self._interruption: KeyboardInterrupt | None = None  # of the check
        self._stopped = False

    def start(self) -> None:
        """Check models and data before any test runs.

        Raises:
            UsageError, DataError, ModelError: see `CaseRunner.check`.
        """
        if self.plan.settings.execution.elsewhere and is_controller(self._config):
            option = "--grb-executor" if self.plan.settings.execution.executor else "--grb-jobs"
            raise UsageError(
                f"{option} measures in processes of its own, and so do the workers of "
                f"pytest-xdist: leave -n away, or give -n 0"
            )
        if is_worker(self._config) or self._config.option.collectonly:
            return
        self._undo_sigterm = stop_on_sigterm()
        settings = self.plan.settings
        requested = self.plan.cases.cases or settings.origins["grb_base"] == COMMAND_LINE
        if settings.base is not None and requested and is_controller(self._config):
            raise UsageError(
                "--grb-base and pytest-xdist: leave -n away, or give -n 0; --grb-jobs measures in "
                "several processes"
            )
        if settings.base is not None and requested and settings.execution.executor:
            raise UsageError(
                "--grb-base and --grb-executor: the base would be measured on this machine, and "
                "the run elsewhere; compare with a file (--grb-baseline), or use --grb-jobs"
            )
        try:
            self.runner.check()
        except KeyboardInterrupt as interruption:  # no reports are written before pytest collects
            self._interruption = interruption

    def collecting(self) -> None:
        """End a run that was stopped while it was checked: pytest has begun the session by now.

        Raises:
            KeyboardInterrupt: that of the check.
        """
        if self._interruption is not None:
            self.expected_cases.expect(map(node_id_of, self.plan.cases.part))
            raise self._interruption

    def collected(self, items: Sequence[pytest.Item]) -> None:
        """Take note of the tests that will run, and measure the base.

        pytest has begun the session by now, so that one that is stopped here has its reports.

        Raises:
            UsageError, DataError: the base cannot be measured.
        """
        self.expected_cases.expect(item.nodeid for item in items)
        idle = self._config.option.collectonly or is_worker(self._config)
        if self.plan.settings.base is not None and not idle:
            self._measure_base(items)
        self.runner.submit_tasks(items)

    def _measure_base(self, items: Sequence[pytest.Item]) -> None:
        """Measure the built-in cases at the base, and those of users' own tests.

        Raises:
            UsageError, DataError: it cannot be measured.
        """
        of_tests, unmeasured = self.runner.base_cases(items)
        repeats = self.plan.settings.repeats
        built_in = [BaseCase(case=case, repeats=repeats) for case in self.plan.cases.part]
        if built_in or of_tests or unmeasured:
            run_size = len(self.plan.cases.cases) + len(of_tests)
            self.runner.measure_base([*built_in, *of_tests], unmeasured, run_size)
            self.plan = self.runner.plan

    def base_lines(self) -> list[str]:
        """Return the line below the number of collected tests: what the base has."""
        return base_lines(self.plan.inputs)

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
        lines = header(plan.inputs, len(plan.cases.cases), device)
        lines += [
            fit_line(f"grb metric: {name}: {why}") for name, why in self.runner.metrics.items()
        ]
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
        rows = self.expected_cases.rows
        self._stopped = session.exitstatus == pytest.ExitCode.INTERRUPTED
        measured = self.runner.environment if rows else {}
        if rows and not ending.ended_early(session) and not self.expected_cases.missing:
            try:
                self.runner.look_at_all(rows)
            except KeyboardInterrupt:  # the reports of what is done are still to come
                session.exitstatus = pytest.ExitCode.INTERRUPTED
            self.plan = self.runner.plan
        self._ending = ending.end(
            session,
            self.plan,
            self.expected_cases,
            measured,
            self.runner.definitions,
            self.runner.looking.further if self.runner.looking is not None else {},
        )
        # Whatever it raises, Ctrl-C during an upload too: pytest's summary is still to come.
        try:
            self._hooks.call("pytest_grb_record", record=self._ending.digest.record)
        finally:
            facts = replace(self._ending.facts, hooks_failed=bool(self._hooks.failures))
            session.exitstatus = exit_status(facts)

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
        store = self.plan.settings.execution.store
        if self._stopped and self.expected_cases.missing and store is not None:
            reporter.write_line(
                "grb: stopped; the same command with --grb-resume goes on where it was", yellow=True
            )
        for line in self._hooks.failures:
            reporter.write_line(f"grb: {line}", red=True)

    def close(self) -> None:
        """Annotate the run in GitHub Actions, whatever pytest shows, and release what it holds."""
        if self._ending is not None and in_github_actions(os.environ):
            say(self._config, annotation_lines(self._ending.digest))
        self.runner.close()
        self._undo_sigterm()
