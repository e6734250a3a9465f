"""pytest hooks and fixtures, and nothing else.

Nothing heavy is imported before a test needs it: an installed but unused plugin costs almost
nothing, and collecting does not import torch.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import pytest

from grb_check import hookspecs
from grb_check.session import worker_gpus
from grb_check.settings import pytest_options

if TYPE_CHECKING:
    from grb_check.cases.case import Case
    from grb_check.cases.outcomes import Outcome
    from grb_check.cases.repeat_results import CaseResult
    from grb_check.cases.verdicts import Verdict
    from grb_check.failures.record_failure import SavedFailure
    from grb_check.session.run import Run
    from grb_check.settings.settings import RunSettings

RUN = pytest.StashKey["Run"]()
ALL_GPUS = pytest.StashKey["str | None"]()
RECORD = pytest.StashKey[dict[str, Any]]()
MODEL = pytest.StashKey[Any]()
RESULT: pytest.StashKey[CaseResult] = pytest.StashKey()
SAVED = pytest.StashKey["SavedFailure"]()


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspecs)


def pytest_addoption(parser: pytest.Parser) -> None:
    pytest_options.register(parser)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, None, None]:
    early_config.stash[ALL_GPUS] = worker_gpus.take_gpu(early_config)
    yield
    with _usage_errors():
        pytest_options.check_flags(parser, args)  # conftests may have options of that kind


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "grb(dataset, difficulty, attack, scenario, repeats): attack the model in this case; "
        "the fixture grb_outcome has the figures",
    )
    if (why := config.stash.get(ALL_GPUS, None)) is not None:
        config.issue_config_time_warning(worker_gpus.WorkerWarning(why), stacklevel=2)
    with _usage_errors():
        pytest_options.check_ini_file(config)
        if pytest_options.in_use(config):
            from grb_check.session.plain_imports import import_plainly

            import_plainly(config)
            _run(config)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    what = config.getoption("grb_list")
    if what is None:
        return None
    from grb_check.session.listing import listing
    from grb_check.session.planning import places_of
    from grb_check.session.plugin_hooks import registered_names
    from grb_check.session.pytest_private import say

    with _usage_errors():
        say(config, listing(what, lambda: places_of(config), registered_names(config)))
    return pytest.ExitCode.OK


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    run = session.config.stash.get(RUN, None)
    if run is not None:
        with _usage_errors():
            run.start()


def pytest_report_header(config: pytest.Config) -> list[str]:
    run = config.stash.get(RUN, None)
    return run.header() if run is not None else []


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    run = config.stash.get(RUN, None)
    return run.base_lines() if run is not None else []


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "grb_case" in metafunc.fixturenames:
        from grb_check.session.collection import parametrize

        with _short_errors():
            run = _run(metafunc.config)
            parametrize(metafunc, run.runner.name_of, run.plan.registry)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    run = session.config.stash.get(RUN, None)
    if run is not None:
        run.collecting()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    run = session.config.stash.get(RUN, None)
    if run is not None:
        with _usage_errors():
            run.add_items(session, items)


@pytest.hookimpl(tryfirst=True)  # before the terminal calls pytest_report_collectionfinish
def pytest_collection_finish(session: pytest.Session) -> None:
    run = session.config.stash.get(RUN, None)
    if run is not None:
        with _usage_errors():
            run.collected(session.items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    run = node.config.stash.get(RUN, None)
    if run is not None:
        run.expected_cases.expect(ids)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    node = getattr(report, "node", None)  # the worker, for pytest-xdist
    if node is not None and hasattr(report, "grb") and RUN not in node.config.stash:
        # Only a fixture names the model, which the main process never calls. Hooks that are
        # registered during a call miss that call.
        _run(node.config).book(report)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    run = item.config.stash.get(RUN, None)
    if run is not None:
        run.runner.locate(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and report.failed and RESULT in item.stash:
        _report_evidence(item, report)
    if report.when == "teardown" and RESULT in item.stash:
        del item.stash[RESULT]  # perturbations; items live as long as the session
    if RECORD in item.stash:
        report.grb = item.stash[RECORD]  # type: ignore[attr-defined]
    return report


def pytest_report_teststatus(
    report: pytest.CollectReport | pytest.TestReport, config: pytest.Config
) -> tuple[str, str, str] | None:
    record = getattr(report, "grb", {})
    shown, outcome = record.get("shown"), str(report.outcome)
    if outcome == "passed" and record.get("measured"):
        outcome = "measured"
    letter = {"passed": ".", "failed": "F", "measured": "m"}.get(outcome)
    if report.when != "call" or shown is None or letter is None or hasattr(report, "wasxfail"):
        return None
    short, full = shown
    return outcome, letter, f"{outcome.upper()} ({full if config.option.verbose > 0 else short})"


class Controller:
    """Hooks that need the run: registered if there is one, and not in workers."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._run.book(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._run.finish(session)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        self._run.summarise(terminalreporter)

    def pytest_unconfigure(self) -> None:
        self._run.close()


class WithoutProperties:
    """Removes the figures from reports before pytest writes its JUnit file."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        report.user_properties = [
            entry for entry in report.user_properties if not str(entry[0]).startswith("grb.")
        ]


@pytest.fixture(scope="session")
def grb_settings(request: pytest.FixtureRequest) -> RunSettings:
    """The settings in force: options, ini values and defaults."""
    return _run(request.config).plan.settings


@pytest.fixture
def grb_case(request: pytest.FixtureRequest) -> Case:
    """The case of this test: of the built-in suite, or of `@pytest.mark.grb(...)`."""
    with _short_errors():
        case = _run(request.config).runner.case_of(request)
    request.node.stash[RECORD] = {"case": asdict(case)}
    return case


@pytest.fixture
def grb_model(request: pytest.FixtureRequest, grb_case: Case) -> Any:
    """The model to attack; override it in a conftest.py.

    An override returns `pkg.module:attr`, a factory, or `Trained(...)` or `Encoder(...)`.
    """
    with _short_errors():
        return _run(request.config).runner.model(grb_case.model, request.node)


@pytest.fixture
def grb_outcome(request: pytest.FixtureRequest, grb_case: Case, grb_model: Any) -> Outcome:
    """The figures of the case of this test, for which the model is built, trained and attacked."""
    run = _run(request.config)
    with _short_errors(), _marking_lost(request.node):
        result = run.runner.evaluate(grb_case, grb_model, request.node)
    request.node.stash[MODEL] = grb_model
    _book(request.node, result)
    return result.outcome


@pytest.fixture
def grb_verdict(request: pytest.FixtureRequest, grb_outcome: Outcome) -> Verdict:
    """The verdict of the gate (`--grb-max-drop`, `grb_thresholds`, ...) on the outcome."""
    from grb_check.cases.node_ids import is_node_id
    from grb_check.reports.properties import verdict_properties
    from grb_check.reports.status_words import words_of

    run = _run(request.config)
    with _short_errors(), _marking_lost(request.node):  # references may be attacked
        verdict, result = run.runner.judged(
            request.node.nodeid, request.node.stash[RESULT], run.cases
        )
    _book(request.node, result)
    record = request.node.stash[RECORD]
    record["verdict"], record["shown"] = asdict(verdict), words_of(result.outcome, verdict)
    record["measured"] = verdict.result == "measured" and is_node_id(request.node.nodeid)
    request.node.user_properties.extend(verdict_properties(verdict))
    reason = run.runner.expected_failure(request.node, result.outcome.case.id)
    if reason:  # pytest says whether an unexpected pass is a failure: xfail_strict
        expected = pytest.mark.xfail(reason=reason, raises=pytest.fail.Exception)
        request.node.add_marker(expected)
    if reason and verdict.passed:
        del request.node.stash[RESULT]  # nothing to replay
    if verdict.passed or reason:
        return verdict
    saved = _save(request.node, verdict)
    return (
        replace(verdict, message="\n".join([verdict.message, *saved.lines])) if saved else verdict
    )


def _book(item: pytest.Item, result: CaseResult) -> None:
    """Enter the figures of a test, in the place of those before more was measured."""
    from grb_check.ranking.ranks import standings_of
    from grb_check.reports.properties import PREFIX, case_properties, rank_properties
    from grb_check.reports.status_words import words_of

    plan, outcome = _run(item.config).plan, result.outcome
    standings = standings_of(outcome, plan.boards, plan.settings.gate)
    properties = case_properties(outcome) + rank_properties(standings)
    others = [entry for entry in item.user_properties if not entry[0].startswith(PREFIX)]
    item.user_properties[:] = [*others, *properties]
    item.stash[RECORD] |= {"outcome": outcome.to_dict(), "shown": words_of(outcome)}
    item.stash[RESULT] = result


def _save(item: pytest.Item, verdict: Verdict | None) -> SavedFailure | None:
    """Save the perturbations that a test failed under, if the settings say so."""
    saved = _run(item.config).runner.save(item, item.stash[MODEL], item.stash[RESULT], verdict)
    if saved is not None:
        item.stash[SAVED] = saved
        item.stash[RECORD]["evidence"] = saved.record
    return saved


def _report_evidence(item: pytest.Item, report: pytest.TestReport) -> None:
    """Add a section to the report of a failed test: the counter-example in full, or, for a test of
    the user, how to replay it. JUnit files show sections named stdout."""
    judged = item.stash[RECORD].get("verdict")
    if SAVED not in item.stash and (judged is None or judged["result"] != "fail"):
        saved = _save(item, None)
        section = "\n".join(saved.lines) if saved else ""
    else:
        section = item.stash[SAVED].section if SAVED in item.stash else ""
    if section:
        item.add_report_section(report.when, "stdout: grb evidence", f"{section}\n")
        report.sections.append((f"Captured stdout: grb evidence {report.when}", f"{section}\n"))


def _run(config: pytest.Config) -> Run:
    """Return the run of this session, which is created on first use."""
    if RUN not in config.stash:
        from grb_check.session.pytest_private import is_worker
        from grb_check.session.run import Run

        run = Run(config)
        config.stash[RUN] = run
        if not is_worker(config):
            config.pluginmanager.register(Controller(run), "grb_check_controller")
            if not config.getini(pytest_options.JUNIT_PROPERTIES):
                config.pluginmanager.register(WithoutProperties(), "grb_check_strict_junit")
    return config.stash[RUN]


@contextmanager
def _usage_errors() -> Iterator[None]:
    """Turn our errors before the run into usage errors of pytest: one line, exit code 4.

    A lost worker is no usage error: exit code 3, as later in the run.
    """
    from grb_check.errors import GrbCheckError, LostError
    from grb_check.files.text import fit

    try:
        yield
    except LostError as error:
        code = int(pytest.ExitCode.INTERNAL_ERROR)
        pytest.exit(f"{fit(error)}; nothing was measured", returncode=code)
    except GrbCheckError as error:
        raise pytest.UsageError(fit(error)) from None


@contextmanager
def _marking_lost(item: pytest.Item) -> Iterator[None]:
    """Note in the record of a test that its case was lost, which is no verdict."""
    from grb_check.errors import LostError

    try:
        yield
    except LostError:
        item.stash[RECORD]["lost"] = True
        raise


@contextmanager
def _short_errors() -> Iterator[None]:
    """Turn our errors inside a fixture into errors of the test, without a traceback."""
    from grb_check.errors import GrbCheckError
    from grb_check.files.text import fit

    try:
        yield
    except GrbCheckError as error:
        raise pytest.fail.Exception(fit(error), pytrace=False) from None
