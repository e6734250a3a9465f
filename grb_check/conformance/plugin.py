"""The suite `conformance`: one test for each property and model, by the public hooks alone.

A plugin of pytest like any other that builds on grb_check. Imports neither torch nor hypothesis
before a test runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from grb_check.conformance.model import CheckedModel
    from grb_check.errors import GrbCheckError
    from grb_check.settings.registered_names import Registry
    from grb_check.settings.settings import RunSettings

SUITE: Final = "conformance"
_SETTINGS: Final = pytest.StashKey["RunSettings"]()


@pytest.hookimpl(optionalhook=True)  # without grb_check nobody knows it: `-p no:grb_check`
def pytest_grb_register(registry: Registry) -> None:
    registry.suite(SUITE, datasets=["synthetic-cora"], difficulties=["full"], attacks=[], repeats=1)


@pytest.hookimpl(optionalhook=True)
def pytest_grb_settings(settings: RunSettings, config: pytest.Config) -> None:
    config.stash[_SETTINGS] = settings
    if settings.suite == SUITE:
        _refuse_wrong_settings(settings)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Append a test of each selected property of each model, if this suite is run."""
    settings = config.stash.get(_SETTINGS, None)
    if settings is None or settings.suite != SUITE:
        return
    models = cache(lambda label: _trained(settings, label))
    for spec in settings.models:
        for name in _selected(settings):
            node_id = f"{SUITE}::{spec.label}[{name}]"
            item: Any = PropertyItem.from_parent(session, name=node_id, nodeid=node_id)
            item.check = lambda name=name, label=spec.label: _checked(models(label), name)
            for reason in _reasons(settings, spec.label, name):
                item.add_marker(pytest.mark.xfail(reason=reason, raises=pytest.fail.Exception))
            items.append(item)


class PropertyItem(pytest.Item):
    """The test of one property of one model."""

    check: Any

    def runtest(self) -> None:
        """Fail with the smallest graph found, or skip with the reason."""
        result = self.check()
        if result.result == "skip":
            pytest.skip(result.note)
        if result.result == "fail":
            pytest.fail(result.explanation, pytrace=False)
        if result.note:
            self.add_report_section("call", "stdout", f"{result.note}\n")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the text of an error of ours without a traceback."""
        from grb_check.errors import GrbCheckError

        if isinstance(excinfo.value, GrbCheckError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """Return where the test is: it has no file."""
        return self.config.rootpath, None, self.nodeid


def _refuse_wrong_settings(settings: RunSettings) -> None:
    """Refuse what the suite cannot do, before anything is trained.

    Raises:
        UsageError: several datasets, a pattern or an expected failure that no property matches; or
            hypothesis is missing.
    """
    from grb_check import strategies  # noqa: F401 - imports hypothesis, or says what to install
    from grb_check.conformance.properties import PROPERTIES
    from grb_check.errors import UsageError, choose
    from grb_check.settings.judging import EXPECTED
    from grb_check.settings.options import INI

    if len(settings.datasets) > 1:
        names = ", ".join(source.name for source in settings.datasets)
        raise UsageError(
            f"properties are checked of models trained on one dataset, got {names}; give one "
            f"--grb-dataset"
        )
    for expected in settings.expected_failures:
        pattern = expected.pattern.rpartition("@")[2]
        if "/" in pattern and settings.origins[EXPECTED] == INI:
            continue  # of a case, in a run of attacks
        if not any(fnmatchcase(name, pattern) for name in PROPERTIES):
            choose("property of an expected failure", pattern, tuple(PROPERTIES))
    for pattern in settings.patterns:
        if not any(fnmatchcase(name, pattern) for name in PROPERTIES):
            raise UsageError(
                f"case pattern {pattern!r} matches none of the properties {', '.join(PROPERTIES)}"
            )


def _selected(settings: RunSettings) -> Iterator[str]:
    from grb_check.conformance.properties import names_of

    for name in names_of(of_graphs=settings.datasets[0].of_graphs):
        if not settings.patterns or any(
            fnmatchcase(name, pattern) for pattern in settings.patterns
        ):
            yield name


def _reasons(settings: RunSettings, label: str, name: str) -> list[str]:
    names = (name, f"{label}@{name}")
    return [
        expected.reason
        for expected in settings.expected_failures
        if any(fnmatchcase(known, expected.pattern) for known in names)
    ]


def _trained(settings: RunSettings, label: str) -> CheckedModel | GrbCheckError:
    """Return a model trained with seed 0, or why it cannot be: each is tried once."""
    from grb_check.conformance.check_model import trained_model
    from grb_check.errors import GrbCheckError
    from grb_check.evaluation.evaluator import Evaluator
    from grb_check.settings.settings import found_again
    from grb_check.store.place import open_store
    from grb_check.victims.subject import as_subject

    spec = settings.model(label)
    evaluator = Evaluator(store=open_store(settings.execution.store), device=settings.device)
    try:
        return trained_model(
            evaluator,
            as_subject(spec.target, spec.arguments, spec.label),
            found_again(settings.datasets[0], settings),
        )
    except GrbCheckError as error:
        return error


def _checked(model: CheckedModel | GrbCheckError, name: str) -> Any:
    from grb_check.conformance.check import check_property  # torch and hypothesis

    if isinstance(model, Exception):
        raise model
    return check_property(model, name)
