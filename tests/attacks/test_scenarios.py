"""Scenarios have their names in one place."""

from __future__ import annotations

import ast
from pathlib import Path

import grb_check
from grb_check.attacks import scenarios

PACKAGE = Path(grb_check.__file__).parent


def test_no_other_module_spells_the_name_of_a_scenario() -> None:
    """A typing error in a name would be a scenario that nothing knows."""
    spelt = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in PACKAGE.rglob("*.py")
        if path != Path(scenarios.__file__)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and node.value in scenarios.SCENARIOS
    ]
    assert not spelt
