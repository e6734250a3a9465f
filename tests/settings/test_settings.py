"""The cases of settings, and settings widened by node ids."""

from __future__ import annotations

from pathlib import Path

from settings_factory import settings

from grb_check.cases.attack_registry import AttackRegistry
from grb_check.cases.node_ids import parse_node_id
from grb_check.settings.selecting import cases_of, widened


def test_a_node_id_widens_the_selection_to_its_case(tmp_path: Path) -> None:
    """Whatever the other options leave out."""
    options = settings(tmp_path, model=["a:b"], difficulty=["easy"], attack=["fgsm"])
    case = parse_node_id("grb::synthetic-cora::test_attack[full/modification/dice]")
    assert not any(map(case.selects, cases_of(options)))
    assert any(map(case.selects, cases_of(widened(options, [case], AttackRegistry()))))


def test_each_budget_makes_cases_of_its_own(tmp_path: Path) -> None:
    """From the command line or the ini file; a node id from such a run is known in another."""
    given = {"model": ["a:b"], "difficulty": ["easy"], "attack": ["dice,modification/worst"]}
    options = settings(tmp_path, budget=["10%,0.01", "0.1"], **given)
    assert options.budgets == (0.01, 0.1)
    assert [case.attack for case in cases_of(options)] == [
        "dice+budget=0.01",
        "dice+budget=0.1",
        "worst+budget=0.01",
        "worst+budget=0.1",
    ]
    assert cases_of(settings(tmp_path, ini={"budget": ["0.01", "0.1"]}, **given)) == cases_of(
        options
    )
    assert len(cases_of(settings(tmp_path, budget=["0.1,0.2"], case=["*/dice"], **given))) == 2
    printed = parse_node_id("grb::synthetic-cora::test_attack[easy/modification/dice+budget=0.1]")
    plain = widened(settings(tmp_path, model=["a:b"]), [printed], AttackRegistry())
    assert any(map(printed.selects, cases_of(plain)))
