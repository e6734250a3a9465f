"""Adds the built-in cases to pytest's collection, and reads printed node ids back.

One module node for each model and dataset stands over the bundled suite: a dataset is prepared
once, `--dist loadscope` keeps it on one worker, and fixtures and their overrides work as usual.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

import pytest

from grb_check.cases import (
    DIFFICULTIES,
    SCENARIOS,
    Case,
    NodeId,
    choose,
    expand,
    is_node_id,
    node_path,
    parse_node_id,
    select_attacks,
)
from grb_check.errors import UsageError

CASES: Final = pytest.StashKey[tuple[Case, ...]]()
MARK: Final = "grb"
DEFAULT_DATASET: Final = "synthetic-cora"
MARK_ARGUMENTS: Final = ("dataset", "difficulty", "attack", "scenario", "repeats")


def take_node_ids(config: pytest.Config) -> tuple[NodeId, ...]:
    """Take ids of built-in cases out of pytest's arguments, which would look for files."""
    ids = tuple(parse_node_id(argument) for argument in config.args if is_node_id(argument))
    if ids:
        config.args[:] = [argument for argument in config.args if not is_node_id(argument)]
    return ids


def names_files_only(config: pytest.Config) -> bool:
    """Whether the command line names single test files or tests, and no folder."""
    if config.args_source is not pytest.Config.ArgsSource.ARGS or not config.args:
        return False
    here = config.invocation_params.dir
    return all((here / argument.split("::")[0]).is_file() for argument in config.args)


def built_in_items(
    session: pytest.Session, others: Sequence[pytest.Item], cases: Sequence[Case]
) -> list[pytest.Item]:
    """The test items of the cases, in their order; `others` are the repository's own."""
    suite = importlib.import_module("grb_check.suite")
    items: list[pytest.Item] = []
    for path, group in groupby(cases, key=node_path):
        module: pytest.Module = pytest.Module.from_parent(
            _parent(session, others), path=Path(str(suite.__file__)), name=path, nodeid=path
        )
        module.obj = suite
        module.add_marker(MARK)
        module.stash[CASES] = tuple(group)
        items.extend(session.genitems(module))
    return items


def _parent(session: pytest.Session, others: Sequence[pytest.Item]) -> pytest.Collector:
    """Where overrides of fixtures in the root conftest.py are seen.

    pytest 9.1 shows them below the root's `Dir` node only (pytest#14683), 9.0 and 9.2 everywhere.
    """
    for item in others:
        for node in item.listchain():
            if isinstance(node, pytest.Dir):
                return node
    return session


def parametrize(metafunc: pytest.Metafunc, name_of: Callable[[str], str]) -> None:
    """Give a test of the built-in suite its cases, and a marked test of the user's its own."""
    module = metafunc.definition.getparent(pytest.Module)
    cases = module.stash.get(CASES, None) if module is not None else None
    if cases is not None:
        ids = [case.cell for case in cases]
        metafunc.parametrize("grb_case", cases, ids=ids, indirect=True)
        return
    marker = metafunc.definition.get_closest_marker(MARK)
    if marker is None:
        return
    marked = cases_of_marker(marker, name_of)
    if len(marked) > 1:
        ids = [case.id for case in marked]
        metafunc.parametrize("grb_case", marked, ids=ids, indirect=True)


def cases_of_marker(marker: pytest.Mark, name_of: Callable[[str], str]) -> list[Case]:
    """The cases that `@pytest.mark.grb(dataset=..., difficulty=..., attack=...)` stands for.

    Each argument is a string or a list of strings; `attack` is `scenario/name` or a name that
    one scenario alone has.

    Args:
        marker: as the user wrote it.
        name_of: the name in case ids of what the user calls a dataset, which may be a folder.

    Raises:
        UsageError: an unknown argument or value.
    """
    unknown = sorted(set(marker.kwargs) - set(MARK_ARGUMENTS))
    if marker.args or unknown:
        raise UsageError(
            f"@pytest.mark.grb takes {', '.join(f'{name}=' for name in MARK_ARGUMENTS)}; "
            f"got {', '.join([*map(repr, marker.args), *unknown])}"
        )
    scenarios = _listed(marker.kwargs.get("scenario", SCENARIOS))
    attacks = [
        pair
        for name in _listed(marker.kwargs.get("attack", "injection/pgd"))
        for pair in _one_attack(name, [choose("scenario", each, SCENARIOS) for each in scenarios])
    ]
    levels = [
        choose("difficulty", level, DIFFICULTIES)
        for level in _listed(marker.kwargs.get("difficulty", "full"))
    ]
    names = [name_of(each) for each in _listed(marker.kwargs.get("dataset", DEFAULT_DATASET))]
    return expand([""], names, levels, attacks)


def _one_attack(name: str, scenarios: Sequence[str]) -> tuple[tuple[str, str], ...]:
    pairs = select_attacks([name], scenarios)
    if len(pairs) > 1:
        raise UsageError(
            f"@pytest.mark.grb: attack {name!r} is ambiguous; give one of "
            f"{', '.join('/'.join(pair) for pair in pairs)}"
        )
    return pairs


def _listed(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
