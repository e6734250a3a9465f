"""Hooks that other plugins and conftest.py files may implement; `plugin.py` adds them to pytest.

Each implementation is called by itself, in pytest's usual order, so that an error names its plugin:
return values are ignored, and wrappers are refused. A plugin that also has to work where grb_check
is not installed marks its implementations with `@pytest.hookimpl(optionalhook=True)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from grb_check.cases.outcomes import Outcome
    from grb_check.cases.verdicts import Verdict
    from grb_check.reports.record import RunRecord
    from grb_check.settings.registered_names import Registry
    from grb_check.settings.settings import RunSettings


def pytest_grb_register(registry: Registry) -> None:
    """Give names to attacks, datasets, models and suites.

    Called once before options are read, in every process: also in each worker of pytest-xdist, and
    for `--grb-list`. It must register the same names in all of them, and it should not import
    torch: give import paths, which are imported when their name is first used. A conftest.py counts
    if pytest loads it at the start: that of the root folder, and those of directories (and their
    `test*` subdirectories) that the command line or `testpaths` names. Neither
    `grb_check.evaluate` nor `python -m grb_check` calls hooks; attacks of installed packages have
    the entry points `grb_check.attacks` there.

    An exception, or a name that is refused, ends the run before its first test with exit code 4.

    Args:
        registry: with the methods `attack`, `dataset`, `model` and `suite`.
    """


def pytest_grb_settings(settings: RunSettings, config: pytest.Config) -> None:
    """Receive the settings of the run, before anything is collected; refuse what cannot be done.

    Called once, in every process. With it and `pytest_collection_modifyitems` a plugin adds its
    own tests of the models of the run, as `grb_check.conformance.plugin` does.

    A `grb_check.UsageError`, as any other exception, ends the run with exit code 4.

    Args:
        settings: frozen.
        config: pytest's.
    """


def pytest_grb_outcome(outcome: Outcome, verdict: Verdict | None, config: pytest.Config) -> None:
    """Receive the figures of a case as soon as it has run.

    Called in the process that reports: with pytest-xdist when the report of a worker arrives,
    never in a worker. Cases without figures, because of an error or a skip, have no call. A test
    that is run again, as by pytest-rerunfailures, has a call for each run.

    An exception, `pytest.fail` and `sys.exit` cost neither other plugins nor the run: the summary
    has one line for each plugin at fault, and the exit code is 1 if it would be 0. `pytest.exit`
    and Ctrl-C end the run as anywhere else.

    Args:
        outcome: figures of the case.
        verdict: of the gate; None for a test with `grb_outcome` but without `grb_verdict`.
        config: pytest's.
    """


def pytest_grb_record(record: RunRecord, config: pytest.Config) -> None:
    """Receive everything that the run found, which is what `--grb-json` writes.

    Called once, at the end, in the process that reports: after all verdicts, and after the reports
    are written, so that they can be uploaded. Also called for a run that was interrupted or lost
    cases; `record.missing` has them. Not called for `--collect-only`, nor by
    `python -m grb_check merge`, which runs without pytest.

    Exceptions are treated as those of `pytest_grb_outcome`, `pytest.exit` and Ctrl-C included.

    Args:
        record: frozen, see `docs/run-record.schema.json`.
        config: pytest's.
    """
