"""What depends on private names of pytest, in one place.

`xml_key`: `record_testsuite_property` does nothing under xdist (pytest#7767); adding to the
controller's report object works with and without workers. To be deleted when that is mended.

`create_terminal_writer`: what `--markers` writes with before a run is configured. It needs an
option of the terminal plugin, which `-p no:terminal` takes away.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import pytest


def add_suite_property(config: pytest.Config, name: str, value: str) -> None:
    """Add a property of the whole suite to the JUnit report, if one is written."""
    from _pytest.junitxml import xml_key

    report = config.stash.get(xml_key, None)
    if report is not None:
        report.add_global_property(name, value)


def is_worker(config: pytest.Config) -> bool:
    """Whether this process is a worker of pytest-xdist."""
    return hasattr(config, "workerinput")


def is_controller(config: pytest.Config) -> bool:
    """Whether this process hands the tests to workers of pytest-xdist."""
    return config.pluginmanager.hasplugin("dsession")


def say(config: pytest.Config, lines: Iterable[str]) -> None:
    """Write lines where there is no run, and no reporter yet."""
    from _pytest._io import TerminalWriter
    from _pytest.config import create_terminal_writer

    plain = not config.pluginmanager.hasplugin("terminal")
    writer = TerminalWriter(sys.stdout) if plain else create_terminal_writer(config, sys.stdout)
    for line in lines:
        writer.line(line)


def add_tests(session: pytest.Session, tests: Sequence[Sequence[pytest.TestReport]]) -> None:
    """Enter tests that were no items, after all others, as if they had just run.

    They are counted, shown and written like others; a failed one fails the session.

    Args:
        session: that is about to finish.
        tests: the reports of each: setup, call and teardown.
    """
    hook = session.config.hook
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if tests and reporter is not None:
        reporter.ensure_newline()  # the last line ends with the progress of the items
        if session.config.get_terminal_writer().width_of_current_line:
            reporter.line("")
    session.testscollected += len(tests)  # or the progress is beyond 100 %
    for reports in tests:
        about = {"nodeid": reports[0].nodeid, "location": reports[0].location}
        hook.pytest_runtest_logstart(**about)
        for report in reports:
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(**about)
    if session.testsfailed and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
