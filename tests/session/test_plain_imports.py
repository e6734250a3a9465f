"""The package's modules are imported without rewriting of assertions."""

from __future__ import annotations

import sys

import pytest

from grb_check.session.plain_imports import PlainFinder, import_plainly

CONFTEST = """
import sys


def pytest_unconfigure():
    loaders = {
        type(module.__spec__.loader).__name__
        for name, module in sys.modules.items()
        if name.startswith("grb_check.evaluation.") and module.__spec__
    }
    print("loaders", *sorted(loaders))
"""


@pytest.mark.slow
def test_a_run_rewrites_nothing_of_the_package(pytester: pytest.Pytester) -> None:
    """In a process of its own, since here everything is imported already."""
    pytester.makeconftest(CONFTEST)
    result = pytester.runpytest_subprocess(
        "--grb-only",
        "--grb-model=grb_check.models:mlp",
        "--grb-attack=injection/rnd",
        "--grb-difficulty=easy",
        "--grb-repeats=1",
        "--grb-max-drop=1",
        "-p",
        "no:cacheprovider",
    )
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["loaders SourceFileLoader"])


def test_other_packages_are_left_to_others() -> None:
    assert PlainFinder.find_spec("grb_checker.module") is None
    assert PlainFinder.find_spec("grb_check") is None
    before = list(sys.meta_path)

    class Config:
        def add_cleanup(self, cleanup: object) -> None:
            self.cleanup = cleanup

    config = Config()
    import_plainly(config)  # type: ignore[arg-type]
    assert sys.meta_path == [PlainFinder, *before]
    config.cleanup()  # type: ignore[operator]
    assert sys.meta_path == before
