"""Private names of pytest, each looked up where it is used: a missing one breaks one feature.

`xml_key`: `record_testsuite_property` does nothing under xdist (pytest#7767); adding to the
controller's report object works with and without workers. To be deleted when that is fixed.

`capturemanager`: there is no other way to capture what child processes and C code write.

`create_terminal_writer`: the writer of `--markers`, which works before a run is configured. It
needs an option of the terminal plugin, which `-p no:terminal` takes away.

`get_config`, `_parser` and `determine_setup`: pytest chooses its root directory and ini file by the
arguments as they are before plugins are loaded, and keeps neither these nor the way to ask again.

`_fixtureinfo`: which definition of a fixture a test will get, before it runs.

`locate_config`, `load_config_dict_from_file`: which ini file pytest reads, and what it reads there.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from _pytest import _io, junitxml
from _pytest import config as _config
from _pytest.config import findpaths

from grb_check.errors import UsageError, one_line


def ini_file(folder: Path) -> Path | None:
    """Return the ini file that pytest reads in a directory; None if it has none there.

    Raises:
        UsageError: pytest cannot read it.
    """
    with _read_by_pytest():
        result: Path | None = findpaths.locate_config(folder, [])[1]
    return result if result is not None and result.parent == folder else None


def ini_values(path: Path) -> dict[str, Any] | None:
    """Return the values of an ini file by name; None if it has no section of pytest.

    Raises:
        UsageError: pytest cannot read it.
    """
    with _read_by_pytest():
        result = findpaths.load_config_dict_from_file(path)
    return None if result is None else {name: entry.value for name, entry in result.items()}


@contextmanager
def _read_by_pytest() -> Iterator[None]:
    try:
        yield
    except (pytest.UsageError, pytest.fail.Exception, UnicodeDecodeError, OSError) as error:
        raise UsageError(f"pytest's ini file cannot be read: {one_line(error)}; mend it") from None


def add_suite_property(config: pytest.Config, name: str, value: str) -> None:
    """Add a property of the whole suite to the JUnit report, if one is written."""
    report = config.stash.get(junitxml.xml_key, None)
    if report is not None:
        report.add_global_property(name, value)


def is_worker(config: pytest.Config) -> bool:
    """Whether this process is a worker of pytest-xdist."""
    return hasattr(config, "workerinput")


def is_controller(config: pytest.Config) -> bool:
    """Whether this process hands the tests to workers of pytest-xdist."""
    return config.pluginmanager.hasplugin("dsession")


def say(config: pytest.Config, lines: Iterable[str]) -> None:
    """Write lines before there is a run and a reporter."""
    plain = not config.pluginmanager.hasplugin("terminal")
    writer = (
        _io.TerminalWriter(sys.stdout)
        if plain
        else _config.create_terminal_writer(config, sys.stdout)
    )
    for line in lines:
        writer.line(line)


def root_and_ini_file(arguments: Sequence[str], invocation_dir: Path) -> tuple[Path, Path | None]:
    """Return the root directory and ini file that pytest chooses before it loads plugins.

    Args:
        arguments: of the command line, after those of `PYTEST_ADDOPTS`.
        invocation_dir: directory in which pytest was called.
    """
    fresh = _config.get_config(arguments)
    given = fresh._parser.parse_known_args(list(arguments), copy.copy(fresh.option))
    root, ini_file, *_ = findpaths.determine_setup(
        inifile=given.inifilename,
        override_ini=None,
        args=given.file_or_dir,
        rootdir_cmd_arg=given.rootdir or None,
        invocation_dir=invocation_dir,
    )
    return root, ini_file


@contextmanager
def captured(config: pytest.Config) -> Iterator[None]:
    """Capture what is written inside, as in tests: it is shown only if an error ends it.

    For users' code that runs outside of a test. With `-s` nothing is captured.
    """
    manager = config.pluginmanager.get_plugin("capturemanager")
    if manager is None or not manager.is_globally_capturing() or _is_started(manager):
        yield  # not wanted, or pytest captures already
        return
    manager.resume_global_capture()
    written: list[str] = []
    try:
        try:
            yield
        finally:
            manager.suspend_global_capture()
            for text in manager.read_global_capture():
                written += text.splitlines()
    except Exception:
        say(config, written)
        raise


def overridden(item: pytest.Item, fixture: str) -> bool:
    """Whether a test gets another definition of a fixture than the first; True if unknown."""
    result = getattr(item, "_fixtureinfo", None)
    return result is None or len(result.name2fixturedefs.get(fixture, ())) != 1


def _is_started(manager: object) -> bool:
    """Whether pytest captures now, as while it collects and while a test runs."""
    return getattr(getattr(manager, "_global_capturing", None), "_state", "") == "started"


def add_tests(session: pytest.Session, tests: Sequence[Sequence[pytest.TestReport]]) -> None:
    """Enter tests that were not items, after all others, as if they had just run.

    They are counted, shown and written like others.

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
    session.testscollected += len(tests)  # or the progress exceeds 100 %
    for reports in tests:
        about = {"nodeid": reports[0].nodeid, "location": reports[0].location}
        hook.pytest_runtest_logstart(**about)
        for report in reports:
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(**about)
