"""Add the built-in cases to pytest's collection, and read printed node ids back.

One module node for each model and dataset stands over the bundled suite: a dataset is prepared
once, `--dist loadscope` keeps it on one worker, and fixtures and their overrides work as usual. Its
path is the root folder, so that hooks of the root conftest.py see the cases too.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from grb_check.attacks.registry import Pair
from grb_check.attacks.scenarios import SCENARIOS
from grb_check.cases.attack_registry import AttackRegistry
from grb_check.cases.case import DIFFICULTIES, Case
from grb_check.cases.node_ids import ON_ALL, TEST_NAME, NodeId, is_node_id, node_path, parse_node_id
from grb_check.cases.selection import expand
from grb_check.cases.whole_numbers import check_repeats
from grb_check.errors import GrbCheckError, UsageError, choose

CASES: Final = pytest.StashKey[tuple[Case, ...]]()
MARK: Final = "grb"
DEFAULT_DATASET: Final = "synthetic-cora"
OF_A_CASE: Final = frozenset({"grb_case", "grb_model", "grb_outcome", "grb_verdict"})
MARK_ARGUMENTS: Final = ("dataset", "difficulty", "attack", "scenario", "repeats")


def take_node_ids(config: pytest.Config) -> tuple[NodeId, ...]:
    """Take ids of built-in cases out of pytest's arguments, which are paths of files.

    Raises:
        UsageError: an id has another form, or is that of a verdict on several cases.
    """
    ids = tuple(_case_id(argument) for argument in config.args if is_node_id(argument))
    if ids:
        config.args[:] = [argument for argument in config.args if not is_node_id(argument)]
    return ids


def _case_id(argument: str) -> NodeId:
    path, _, name = argument.rpartition("::")
    if name in ON_ALL:
        raise UsageError(
            f"{argument!r} is the verdict on all cases of {path} together, which cannot run "
            f"as a test; give {path} instead"
        )
    return parse_node_id(argument)


def names_files_only(config: pytest.Config) -> bool:
    """Whether the command line names single test files or tests only."""
    if config.args_source is not pytest.Config.ArgsSource.ARGS or not config.args:
        return False
    invocation_dir = config.invocation_params.dir
    return all((invocation_dir / argument.split("::")[0]).is_file() for argument in config.args)


def built_in_items(session: pytest.Session, cases: Sequence[Case]) -> list[pytest.Item]:
    """Return the test items of the cases, in their order.

    Their parent is the session itself, where fixtures of the root conftest.py are visible; pytest
    9.1 shows those below the root's `Dir` only (pytest#14683), which not every run has.
    """
    items: list[pytest.Item] = []
    for path, group in groupby(cases, key=node_path):
        module = _module(session, path, TEST_NAME)
        module.add_marker(MARK)
        module.stash[CASES] = tuple(group)
        items.extend(session.genitems(module))
    return items


def _module(session: pytest.Session, path: str, test: str) -> pytest.Module:
    """A module node with one of the built-in tests."""
    module: pytest.Module = pytest.Module.from_parent(
        session, path=session.config.rootpath, name=path, nodeid=path
    )
    suite = importlib.import_module("grb_check.builtin_tests")
    module.obj = ModuleType(suite.__name__)
    setattr(module.obj, test, getattr(suite, test))
    return module


def point_to(item: pytest.Item, location: tuple[Path, int] | None) -> None:
    """Make a file and line the place of a test, which reports and editors point to."""
    if location is None:
        return
    with suppress(ValueError):  # it lies on another drive
        where = os.path.relpath(location[0], item.config.rootpath)
        item.location = where, location[1] - 1, item.location[2]  # counted from 0


def parametrize(
    metafunc: pytest.Metafunc, name_of: Callable[[str], str], registry: AttackRegistry
) -> None:
    """Parametrize a test with its cases: those of its module, or those of its marker."""
    module = metafunc.definition.getparent(pytest.Module)
    cases = module.stash.get(CASES, None) if module is not None else None
    if cases is not None:
        ids = [case.cell for case in cases]
        metafunc.parametrize("grb_case", cases, ids=ids, indirect=True)
        return
    definition = metafunc.definition
    try:
        marked = marked_cases(definition, name_of, registry)
    except GrbCheckError as error:
        raise UsageError(f"{definition.nodeid}: {error}") from None
    if len(marked) > 1:
        ids = [case.id for case in marked]
        metafunc.parametrize("grb_case", marked, ids=ids, indirect=True)


def marked_arguments(node: pytest.Item) -> dict[str, Any] | None:
    """Return the arguments of the markers of a test, its class and its module; None if it has none.

    Of an argument that several give, the closest counts.

    Raises:
        UsageError: one has an unknown argument.
    """
    markers = list(node.iter_markers(MARK))
    result: dict[str, Any] = {}
    for marker in reversed(markers):
        unknown = sorted(set(marker.kwargs) - set(MARK_ARGUMENTS))
        if marker.args or unknown:
            raise UsageError(
                f"@pytest.mark.grb takes {', '.join(f'{name}=' for name in MARK_ARGUMENTS)}; "
                f"got {', '.join([*map(repr, marker.args), *unknown])}"
            )
        result |= marker.kwargs
    return result if markers else None


def marked_cases(
    node: pytest.Item, name_of: Callable[[str], str], registry: AttackRegistry
) -> list[Case]:
    """Return the cases that the markers of a test, its class and its module name:
    `@pytest.mark.grb(dataset=..., difficulty=..., attack=...)`.

    Each argument is a string or a list of strings; `attack` is `scenario/name`, a name of a single
    scenario, or `pkg.module:attr`, each with or without modifiers.

    Args:
        node: the test.
        name_of: returns the name in case ids of a dataset, which may be given as a folder.
        registry: of attacks.

    Returns:
        Empty for a test without the marker.

    Raises:
        UsageError: an argument or value is unknown.
    """
    arguments = marked_arguments(node)
    if arguments is None:
        return []

    def listed(name: str, default: object) -> list[str]:
        return _listed(name, arguments.get(name, default))

    repeats = arguments.get("repeats", 1)
    given = repr(repeats) if isinstance(repeats, str) else repeats  # a text is no number here
    check_repeats("@pytest.mark.grb(repeats=...)", given)
    scenarios = [
        choose("scenario", scenario, SCENARIOS) for scenario in listed("scenario", SCENARIOS)
    ]
    attacks = [_one_attack(name, scenarios, registry) for name in listed("attack", "injection/pgd")]
    levels = [choose("difficulty", level, DIFFICULTIES) for level in listed("difficulty", "full")]
    names = [name_of(name) for name in listed("dataset", DEFAULT_DATASET)]
    return list(dict.fromkeys(expand([""], names, levels, attacks)))


def check_marked(items: Iterable[pytest.Item]) -> None:
    """Check that tests that name a case attack it.

    Raises:
        UsageError: a test is marked and takes no fixture of grb_check, so that it would just pass.
    """
    for item in items:
        named = any(marker.name == MARK and marker.kwargs for marker in item.own_markers)
        if named and OF_A_CASE.isdisjoint(getattr(item, "fixturenames", ())):
            raise UsageError(
                f"{item.nodeid} is marked with a case of grb and takes no fixture of a case, so "
                f"that nothing would be attacked; give it a parameter grb_outcome or grb_verdict"
            )


def _one_attack(name: str, scenarios: Sequence[str], registry: AttackRegistry) -> Pair:
    try:
        return registry.one(name, scenarios)
    except UsageError as error:
        raise UsageError(f"@pytest.mark.grb: {error}") from None


def _listed(name: str, value: object) -> list[str]:
    values = [value] if isinstance(value, str) else value
    if (
        not isinstance(values, (list, tuple))
        or not values
        or not all(isinstance(entry, str) and entry.strip() for entry in values)
    ):
        raise UsageError(
            f"@pytest.mark.grb: {name}={value!r} is neither a string nor a list of strings, none "
            f"of them blank; give one of these"
        )
    return list(values)
