"""What depends on private names of pytest, in one place.

`xml_key`: `record_testsuite_property` does nothing under xdist (pytest#7767); adding to the
controller's report object works with and without workers. To be deleted when that is mended.
"""

from __future__ import annotations

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
