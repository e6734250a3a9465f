"""Node ids of built-in cases, as pytest prints them and takes them back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from grb_check.attacks.scenarios import SCENARIOS
from grb_check.cases.case import DIFFICULTIES, Case
from grb_check.errors import UsageError

NODE_PREFIX: Final = "grb"

# Verdicts on all cases of a model and dataset.
AUDIT_TEST: Final = "test_audit"
BASELINE_TEST: Final = "test_baseline"
CLEAN_TEST: Final = "test_clean"
ON_ALL: Final = (AUDIT_TEST, BASELINE_TEST, CLEAN_TEST)
TEST_NAME: Final = "test_attack"
_NODE_ID = re.compile(
    rf"{NODE_PREFIX}((?:::[^:\[\]]+(?::[^:\[\]]+)*)*?)"
    rf"(?:::({TEST_NAME})(?:\[([^\]]+)\])?)?"
)


@dataclass(frozen=True)
class NodeId:
    """A node id of the built-in suite, or the beginning of one."""

    parts: tuple[str, ...]  # one or two of model, dataset
    cell: str = ""
    test: str = ""  # name of the test; empty for all tests

    def __str__(self) -> str:
        path = "::".join((NODE_PREFIX, *self.parts))
        return f"{path}::{self.test}[{self.cell}]" if self.cell else path

    def selects(self, case: Case) -> bool:
        """Whether the node id is that of the case, or of its module."""
        path = (case.model, case.dataset) if case.model else (case.dataset,)
        return path[: len(self.parts)] == self.parts and self.cell in ("", case.cell)

    def case(self) -> Case:
        """Return the case of a complete id."""
        *model, dataset = self.parts
        difficulty, scenario, attack = self.cell.split("/")
        return Case(dataset, difficulty, scenario, attack, model[0] if model else "")


def is_node_id(argument: str) -> bool:
    """Whether a command line argument names cells of the built-in suite."""
    return argument.startswith(f"{NODE_PREFIX}::")


def is_verdict_id(node_id: str) -> bool:
    """Whether it is the id of a verdict on several cases."""
    return is_node_id(node_id) and node_id.endswith(tuple(f"::{name}" for name in ON_ALL))


def parse_node_id(argument: str) -> NodeId:
    """Read `grb::[model::]dataset[::test_attack[[difficulty/scenario/attack]]]`.

    Raises:
        UsageError: the argument has another form.
    """
    match = _NODE_ID.fullmatch(argument)
    parts = tuple(match[1].split("::")[1:]) if match else ()
    test, cell = (match[2] or "", match[3] or "") if match else ("", "")
    if match is None or len(parts) > 2 or (cell and cell.count("/") != 2):
        raise UsageError(
            f"{argument!r} is not the id of a grb case; ids look like "
            f"'{NODE_PREFIX}::synthetic-cora::{TEST_NAME}[easy/injection/pgd]'"
        )
    return NodeId(parts, cell, test)


def case_of(node_id: str) -> Case | None:
    """Return the case of a test of the built-in suite; None if another plugin changed its id.

    Text after the brackets is ignored: pytest-xdist writes `@group` there.
    """
    try:
        parsed = parse_node_id(node_id[: node_id.rfind("]") + 1])
    except UsageError:
        return None
    if parsed.test != TEST_NAME:
        return None
    case = parsed.case()
    known = case.difficulty in DIFFICULTIES and case.scenario in SCENARIOS
    return case if known else None


def node_id_of(case: Case) -> str:
    """Return the node id of the built-in test of a case."""
    return f"{node_path(case)}::{TEST_NAME}[{case.cell}]"


def node_path(case: Case) -> str:
    """Return the node id of the module of a case: one for each model and dataset."""
    return "::".join(part for part in (NODE_PREFIX, case.model, case.dataset) if part)
