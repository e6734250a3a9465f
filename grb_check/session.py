"""One pytest run: its settings, its cases, its evaluator and its book. Called by the hooks."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest

from grb_check import collection, datasets, options
from grb_check.cases import Case, NodeId, case_of, node_path
from grb_check.compat import add_suite_property, add_tests, is_controller, is_worker
from grb_check.datasets import Source
from grb_check.errors import UsageError
from grb_check.ledger import Ledger, Result
from grb_check.outcomes import Outcome
from grb_check.rankings import prepare
from grb_check.raw_values import read_raw
from grb_check.reports import json_report, junit, terminal
from grb_check.reports.rank_report import rank_reports
from grb_check.reports.standings import Ranks
from grb_check.roster import Roster
from grb_check.settings import Settings, check_thresholds, read, read_places

if TYPE_CHECKING:
    from grb_check.evaluation import Evaluator
    from grb_check.progress import Ticker
    from grb_check.subjects import Subject


class Run:
    """Everything one session needs; `config` is pytest's.

    Raises:
        UsageError: an option or ini value is wrong.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.ledger = Ledger()
        self.roster = Roster()
        self.left_out = False
        self._lost = False
        self._subjects: dict[str, Subject] = {}
        self._sources: dict[str, Source] = {}
        self._ticker: Ticker | None = None
        options.refuse_split_paths(config)
        node_ids = collection.take_node_ids(config)
        here = config.invocation_params.dir
        if options.names_users_code(config):
            sys.path[:0] = map(str, dict.fromkeys([here, config.rootpath]))
            # Read when torch is loaded: waiting threads sleep instead of taking a core from
            # another worker; without it two workers on two cores are several times slower.
            os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        with _quiet_imports():
            settings = read(options.lookup(config), config.rootpath, here, self.roster)
        needs = "an id of a grb case" if node_ids else options.selecting(config)
        if needs and not settings.models:
            raise UsageError(f"{needs} needs a model; add --grb-model pkg.module:attr")
        self._selected = settings.attacks  # before node ids add theirs
        self.settings: Settings = settings.for_node_ids(node_ids, self.roster)
        check_thresholds(self.settings, self.roster)
        self.cases = self._select(node_ids) if settings.models else []
        self.rankings = prepare(self.settings, self.cases)
        self._ranks = Ranks()
        self._unjudged: list[str] = []
        if config.getoption("grb_only"):
            config.args[:] = []
        if self.settings.json is not None and not is_worker(config):
            json_report.prepare(self.settings.json)

    def start(self) -> None:
        """Load every dataset and build every untrained model once, before any test runs.

        Raises:
            UsageError, DataError, ModelError: so that errors come before any work.
        """
        if is_worker(self._config) or self._config.option.collectonly:
            return
        self._ticker = _ticker(self._config)  # now there is a reporter, and no capturing yet
        with _quiet_imports():
            for label, dataset in dict.fromkeys((case.model, case.dataset) for case in self.cases):
                loaded = self.evaluator.check(self.subject(label), self._source(dataset))
                self.rankings.check_data(dataset, loaded)

    def header(self) -> list[str]:
        """Lines for pytest's header; none where no model is named."""
        if self.left_out:
            return [
                "grb: no cases, because single files were named and the model comes from the ini "
                "file; add --grb-only or leave the files away"
            ]
        device = str(self.evaluator.device) if "evaluator" in self.__dict__ else ""
        return terminal.header(self.settings, len(self.cases), device) if self.cases else []

    def add_items(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Append the built-in cases to the collected tests."""
        items.extend(collection.built_in_items(session, self.cases))

    @cached_property
    def evaluator(self) -> Evaluator:
        with _quiet_imports():
            from grb_check.evaluation import Evaluator
        from grb_check.store import Store

        return Evaluator(
            store=Store(self.settings.store),
            device=self.settings.device,
            progress=self._ticker,
            attacks=self.roster.own,
        )

    def subject(self, label: str) -> Subject:
        """The model of that label, imported.

        Raises:
            UsageError: no model is named, or it cannot be imported.
        """
        from grb_check.subjects import as_subject

        if not self.settings.models:
            raise UsageError(
                "no model to attack: give --grb-model pkg.module:attr, or override the fixture "
                "grb_model in a conftest.py"
            )
        if label not in self._subjects:
            spec = self.settings.model(label)
            self._subjects[label] = as_subject(spec.target, spec.args, spec.label)
        return self._subjects[label]

    def evaluate(self, case: Case, model: Any, node: pytest.Item) -> Outcome:
        """Run a case on what the fixture `grb_model` gave."""
        from grb_check.subjects import Subject, as_subject

        subject = model if isinstance(model, Subject) else as_subject(model)
        marked = [
            mark.kwargs["repeats"]
            for mark in node.iter_markers(collection.MARK)
            if "repeats" in mark.kwargs
        ]
        repeats = int(marked[0]) if marked else self.settings.repeats
        return self.evaluator.outcome(
            subject, self._source(case.dataset), case, repeats, self._selected
        )

    def case_of(self, request: pytest.FixtureRequest) -> Case:
        """The case of a test: its parameter, or what its marker says.

        Raises:
            UsageError: there is neither.
        """
        if hasattr(request, "param"):
            case: Case = request.param
            return case
        marker = request.node.get_closest_marker(collection.MARK)
        if marker is None:
            raise UsageError(
                "this test uses a grb fixture and has no case; mark it with "
                "@pytest.mark.grb(dataset=..., difficulty=..., attack=...)"
            )
        return collection.cases_of_marker(marker, self.name_of, self.roster)[0]

    def name_of(self, dataset: str) -> str:
        """The name in case ids of a dataset, which may be given as a folder below rootdir.

        Raises:
            UsageError: there is no such dataset.
        """
        source = self.settings.source(datasets.anchored(dataset, self._config.rootpath))
        self._sources.setdefault(source.name, source)
        return source.name

    def _source(self, name: str) -> Source:
        return self._sources.get(name) or self.settings.source(name)

    def book(self, report: pytest.TestReport) -> None:
        """Enter a report, from this process or a worker, into the ledger."""
        if collection.is_rank_id(report.nodeid):
            return
        if report.when not in ("setup", "call"):  # the last word on a test, or on a dead worker
            self.ledger.reported.add(report.nodeid)
        record: Mapping[str, Any] | None = getattr(report, "grb", None)
        if record is None and report.failed and (case := case_of(report.nodeid)) is not None:
            record = {"case": asdict(case)}
        if record is None or (report.when != "call" and not report.failed):
            return
        result: Result = "error"
        if report.when == "call":
            result = "skip" if report.skipped else "pass" if report.passed else "fail"
        message = report.longreprtext if report.failed else ""
        self.ledger.enter(report.nodeid, record, result, message)

    def finish(self, session: pytest.Session) -> None:
        """Write what outlives the run; refuse to be green when a case did not come back."""
        if self._config.option.collectonly:
            return
        rows = self.ledger.rows
        stopped = session.exitstatus != pytest.ExitCode.OK and bool(self.ledger.missing)
        if self.ledger.torn and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self.ledger.missing and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
            self._lost = True
        self._ranks = self.rankings.ranks(rows, self.ledger.expected)
        verdicts = self.rankings.verdicts(self._ranks, stopped)
        self._unjudged = [each.message for each in verdicts if each.passed is None]
        judged = [each for each in verdicts if each.passed is not None]
        add_tests(session, list(map(rank_reports, judged)))
        if rows:
            for name, value in junit.suite_properties(self.settings, rows, self._ranks).items():
                add_suite_property(self._config, name, value)
        if self.settings.json is not None:
            record = json_report.record(
                self.settings, rows, self.ledger.missing, self._ranks, verdicts
            )
            json_report.write(self.settings.json, record)

    def summarise(self, reporter: pytest.TerminalReporter) -> None:
        """Write the table of the cases below pytest's own reports."""
        if self._config.option.collectonly:
            return
        rows = self.ledger.rows
        if rows:
            terminal.write_table(reporter, rows, self.settings, self._ranks)
        terminal.write_unjudged(reporter, self._unjudged)
        if self.ledger.torn:
            terminal.write_torn(reporter, self.ledger.torn)
        if self._lost:
            terminal.write_missing(reporter, self.ledger.missing)

    def close(self) -> None:
        """Give back what the run holds."""
        if self._ticker is not None:
            self._ticker.close()

    def _select(self, node_ids: Sequence[NodeId]) -> list[Case]:
        cases = self.settings.cases()
        for node_id in node_ids:
            if not any(map(node_id.selects, cases)):
                raise UsageError(
                    f"no grb case has an id like {node_id}; the selected ones begin with "
                    f"{cases[0].id!r}, as {node_path(cases[0])}::..."
                )
        if node_ids:
            return [case for case in cases if any(each.selects(case) for each in node_ids)]
        named_here = self.settings.origins["grb_model"] == options.COMMAND_LINE
        if named_here or self._config.getoption("grb_only"):
            return cases
        self.left_out = collection.names_files_only(self._config)
        return [] if self.left_out else cases


def places_of(config: pytest.Config) -> datasets.Places:
    """Where datasets may come from, by the options and the ini file alone.

    Raises:
        UsageError: a folder is none, or a source or the split is unknown.
    """
    here = config.invocation_params.dir
    return read_places(read_raw(options.lookup(config), config.rootpath, here))


@contextmanager
def _quiet_imports() -> Iterator[None]:
    """Importing torch_geometric warns of what it uses of torch; the user cannot mend that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        yield


def _ticker(config: pytest.Config) -> Ticker | None:
    """Progress for people: on a terminal, unless workers or `-s` have the screen."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    shared = is_worker(config) or is_controller(config) or config.option.capture == "no"
    if reporter is None or shared or not sys.stdout.isatty():
        return None
    from grb_check.progress import Ticker

    writer = config.get_terminal_writer()
    return Ticker(
        os.dup(sys.stdout.fileno()), lambda: writer.width_of_current_line, writer.fullwidth
    )
