"""One pytest run: its settings, its cases, its evaluator and its book. Called by the hooks."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import cached_property
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from grb_check import datasets
from grb_check.cases.attack_registry import Roster
from grb_check.cases.case import Case, NodeId, case_of, node_id_of, node_path
from grb_check.cases.expected_cases import Ledger, Result
from grb_check.cases.outcomes import Outcome
from grb_check.cases.shards import Plan, plan
from grb_check.datasets import Source
from grb_check.errors import UsageError
from grb_check.gate.baselines.baseline import key_of
from grb_check.gate.baselines.result import BaselineResult, baseline_result
from grb_check.ranking.rank_plan import prepare
from grb_check.ranking.run_ranks import Ranks
from grb_check.reports import json_report, junit, rank_words, terminal, written
from grb_check.session import collection, workers
from grb_check.session.baseline_tests import baseline_reports
from grb_check.session.durations import recorded
from grb_check.session.exit_status import ended_early, settle
from grb_check.session.pytest_private import add_suite_property, add_tests, is_controller, is_worker
from grb_check.session.rank_tests import rank_reports
from grb_check.settings import options
from grb_check.settings.rank_request import rank_request
from grb_check.settings.raw_values import read_raw
from grb_check.settings.settings import Settings, check_thresholds, read, read_places

if TYPE_CHECKING:
    from grb_check.evaluation.evaluator import CaseResult, Evaluator
    from grb_check.failures.record_failure import Kept
    from grb_check.gate.baselines.comparison import Comparison
    from grb_check.gate.limits import Verdict
    from grb_check.session.progress import Ticker
    from grb_check.victims.subject import Subject


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
        self._folder: TemporaryDirectory[str] | None = None
        options.refuse_split_paths(config)
        node_ids = collection.take_node_ids(config)
        here = config.invocation_params.dir
        if options.names_users_code(config):
            sys.path[:0] = map(str, dict.fromkeys([here, config.rootpath]))
            # Read when torch is loaded: waiting threads sleep instead of taking a core from
            # another worker; without it two workers on two cores are several times slower.
            os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        with _quiet_imports():
            update = config.getoption("grb_update_baseline") is True
            settings = read(
                options.lookup(config), config.rootpath, here, self.roster, update=update
            )
        needs = "an id of a grb case" if node_ids else options.selecting(config)
        if needs and not settings.models:
            raise UsageError(f"{needs} needs a model; add --grb-model pkg.module:attr")
        self._selected = settings.attacks  # before node ids add theirs
        self.settings: Settings = settings.for_node_ids(node_ids, self.roster)
        check_thresholds(self.settings, self.roster)
        planned = self._select(node_ids) if settings.models else []
        seconds, self._times = recorded(self.settings)
        self.plan: Plan = plan(planned, self.settings.shard, seconds)
        self.cases = list(self.plan.own)
        self.rank_plan = prepare(rank_request(self.settings), planned)
        self._ranks = Ranks()
        self._unjudged: list[str] = []
        self._baseline: BaselineResult | None = None
        if config.getoption("grb_only"):
            config.args[:] = []
        if not is_worker(config):
            self.settings.outputs.prepare()

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
                self.rank_plan.check_data(dataset, loaded)

    def header(self) -> list[str]:
        """Lines for pytest's header; none where no model is named."""
        if self.left_out:
            return [
                "grb: no cases, because single files were named and the model comes from the ini "
                "file; add --grb-only or leave the files away"
            ]
        device = str(self.evaluator.device) if "evaluator" in self.__dict__ else ""
        if not self.plan.cases:
            return []
        lines = terminal.header(self.settings, len(self.plan.cases), device)
        lines += terminal.shard_lines(self.plan, self._times, others=bool(self._config.args))
        if is_controller(self._config) and device in workers.SHARED_OUT:
            lines += workers.gpu_lines(workers.visible_gpus())
        return lines

    def add_items(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Append the built-in cases to the collected tests."""
        items.extend(collection.built_in_items(session, self.cases))

    @cached_property
    def evaluator(self) -> Evaluator:
        with _quiet_imports():
            from grb_check.evaluation.evaluator import Evaluator
            from grb_check.evaluation.shared_victims import SharedVictims
        from grb_check.evaluation.store import Store

        store, shared = self.settings.store, None
        folder = workers.folder_of_run(self._config)
        if folder is not None:
            store, shared = store or folder / "store", SharedVictims(folder / "victims")
        return Evaluator(
            store=Store(store),
            device=self.settings.device,
            progress=self._ticker,
            attacks=self.roster.own,
            shared=shared,
        )

    def hand_over(self, workerinput: dict[str, Any]) -> None:
        """Tell a worker what it is to know: the folder that all of them share until the end."""
        if self._folder is None:
            with suppress(OSError):  # no place to write: each worker trains for itself
                self._folder = TemporaryDirectory(prefix="grb_check-", ignore_cleanup_errors=True)
        if self._folder is not None:
            workerinput[workers.FOLDER] = self._folder.name

    def subject(self, label: str) -> Subject:
        """The model of that label, imported.

        Raises:
            UsageError: no model is named, or it cannot be imported.
        """
        from grb_check.victims.subject import as_subject

        if not self.settings.models:
            raise UsageError(
                "no model to attack: give --grb-model pkg.module:attr, or override the fixture "
                "grb_model in a conftest.py"
            )
        if label not in self._subjects:
            spec = self.settings.model(label)
            self._subjects[label] = as_subject(spec.target, spec.args, spec.label)
        return self._subjects[label]

    def evaluate(self, case: Case, model: Any, node: pytest.Item) -> CaseResult:
        """Run a case on what the fixture `grb_model` gave."""
        marked = [
            mark.kwargs["repeats"]
            for mark in node.iter_markers(collection.MARK)
            if "repeats" in mark.kwargs
        ]
        repeats = int(marked[0]) if marked else self.settings.repeats
        return self.evaluator.case_result(
            _subject(model), self._source(case.dataset), case, repeats, self._selected
        )

    def keep(
        self, node: pytest.Item, model: Any, result: CaseResult, verdict: Verdict | None
    ) -> Kept | None:
        """Keep what made a test fail, so that it can be replayed; None where nothing is wanted.

        Args:
            node: the test.
            model: what the fixture `grb_model` gave.
            result: that it failed on.
            verdict: of the gate; None where the test judges by itself.
        """
        from grb_check.failures.record_failure import Failure, Places, keep, worth_keeping

        folder = self.settings.evidence
        if folder is None or not worth_keeping(verdict):
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
        places = Places(folder=folder, root=self._config.rootpath, here=here)
        shrink = self.settings.shrink and verdict is not None and not verdict.passed
        return keep(failure, self.evaluator, places, shrink=shrink)

    def compared(self, node_id: str, outcome: Outcome) -> Comparison | None:
        """What the baseline says of an outcome; None where there is nothing to compare with."""
        if self.settings.baseline is None:
            return None
        return self.settings.baseline.compare(key_of(node_id, outcome.case), outcome)

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
        if collection.is_verdict_id(report.nodeid):
            return
        if report.when == "teardown":  # the last word on a test; of a dead worker it is "???"
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
        rows, early = self.ledger.rows, ended_early(session)
        self._settle(session)
        stopped = early and bool(self.ledger.missing)
        self._ranks = self.rank_plan.ranks(rows, self.ledger.expected)
        verdicts = self.rank_plan.verdicts(self._ranks, stopped=stopped)
        self._unjudged = [
            rank_words.verdict_message(each) for each in verdicts if each.passed is None
        ]
        judged = [each for each in verdicts if each.passed is not None]
        entered = list(map(rank_reports, judged))
        if self.settings.baseline is not None:
            self._baseline = baseline_result(
                self.settings.baseline,
                rows,
                self.plan.cases,
                cut_short=early or self._lost,
                shard=self.settings.shard,
            )
            entered += baseline_reports(self._baseline, rows)
        add_tests(session, entered)
        named = self.settings.origins["grb_baseline"] == options.COMMAND_LINE
        whole = self.settings.shard is None and session.exitstatus == pytest.ExitCode.OK
        if named and whole and not any(row.verdict for row in rows):  # a gate that judged nothing
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if rows:
            for name, value in junit.suite_properties(self.settings, rows, self._ranks).items():
                add_suite_property(self._config, name, value)
        record = json_report.record(
            self.settings, rows, self.ledger.missing, self._ranks, verdicts, self._closed_plan()
        )
        if self._baseline is not None:
            record["baseline"] = self._baseline.record()
        written.write(self.settings.outputs, record)

    def summarise(self, reporter: pytest.TerminalReporter) -> None:
        """Write the table of the cases below pytest's own reports."""
        if self._config.option.collectonly:
            return
        rows = self.ledger.rows
        if rows:
            terminal.write_table(reporter, rows, self.settings, self._ranks)
        if self._baseline is not None:
            terminal.write_baseline(reporter, self._baseline, rows)
        terminal.write_unjudged(reporter, self._unjudged)
        if self.ledger.torn:
            terminal.write_torn(reporter, self.ledger.torn)
        if self._lost:
            terminal.write_missing(reporter, self.ledger.missing)

    def _settle(self, session: pytest.Session) -> None:
        """The exit status; the lost cases by name."""
        if not self.ledger.collected and is_controller(self._config):  # every worker died before
            self.ledger.expect(map(node_id_of, self.cases))
        told = session.exitstatus == pytest.ExitCode.INTERNAL_ERROR  # without a summary
        idle = bool(self.plan.cases and not self.cases)
        missing, torn = self.ledger.missing, bool(self.ledger.torn)
        self._lost = settle(session, idle=idle, torn=torn, lost=bool(missing))
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if self._lost and told and reporter is not None:
            terminal.write_missing(reporter, missing)

    def _closed_plan(self) -> Plan:
        """The plan, with what pytest left out of it."""
        to_run = {row.case.id for row in self.ledger.rows}
        to_run |= {case.id for each in self.ledger.expected if (case := case_of(each)) is not None}
        left_out = tuple(case.id for case in self.cases if case.id not in to_run)
        return replace(self.plan, deselected=left_out)

    def close(self) -> None:
        """Give back what the run holds."""
        if self._ticker is not None:
            self._ticker.close()
        if self._folder is not None:
            self._folder.cleanup()

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


def _subject(model: Any) -> Subject:
    """What the fixture `grb_model` gave, as a subject."""
    from grb_check.victims.subject import Subject, as_subject

    return model if isinstance(model, Subject) else as_subject(model)


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
    from grb_check.session.progress import Ticker

    writer = config.get_terminal_writer()
    return Ticker(
        os.dup(sys.stdout.fileno()), lambda: writer.width_of_current_line, writer.fullwidth
    )
