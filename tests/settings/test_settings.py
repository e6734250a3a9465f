"""The cases of settings, and settings widened by node ids."""

from __future__ import annotations

from pathlib import Path

import pytest
from settings_factory import settings

from grb_check.cases.attack_registry import AttackRegistry
from grb_check.cases.node_ids import parse_node_id
from grb_check.errors import UsageError


def test_a_node_id_widens_the_selection_to_its_case(tmp_path: Path) -> None:
    """Whatever the other options leave out."""
    made = settings(tmp_path, model=["a:b"], difficulty=["easy"], attack=["fgsm"])
    wanted = parse_node_id("grb::synthetic-cora::test_attack[full/modification/dice]")
    assert not any(map(wanted.selects, made.cases()))
    assert any(map(wanted.selects, made.for_node_ids([wanted], AttackRegistry()).cases()))


def test_each_budget_makes_cases_of_its_own(tmp_path: Path) -> None:
    """From the command line or the ini file; a node id from such a run is known in another."""
    given = {"model": ["a:b"], "difficulty": ["easy"], "attack": ["dice,modification/worst"]}
    made = settings(tmp_path, budget=["10%,0.01", "0.1"], **given)
    assert made.budgets == (0.01, 0.1)
    assert [case.attack for case in made.cases()] == [
        "dice+budget=0.01",
        "dice+budget=0.1",
        "worst+budget=0.01",
        "worst+budget=0.1",
    ]
    assert settings(tmp_path, ini={"budget": ["0.01", "0.1"]}, **given).cases() == made.cases()
    assert len(settings(tmp_path, budget=["0.1,0.2"], case=["*/dice"], **given).cases()) == 2
    printed = parse_node_id("grb::synthetic-cora::test_attack[easy/modification/dice+budget=0.1]")
    plain = settings(tmp_path, model=["a:b"]).for_node_ids([printed], AttackRegistry())
    assert any(map(printed.selects, plain.cases()))


def test_a_local_budget_is_that_of_every_modification(tmp_path: Path) -> None:
    """From the command line or the ini file, before the budget; injections have none."""
    given = {"model": ["a:b"], "difficulty": ["easy"]}
    attacks = {"attack": ["rnd", "dice+local_budget=0.1"], "budget": ["0.2"]}
    made = settings(tmp_path, local_budget="50%", **given, **attacks)
    assert [case.attack for case in made.cases()] == [
        "rnd+budget=0.2",
        "rnd+local_budget=0.5+budget=0.2",
        "dice+local_budget=0.1+budget=0.2",
    ]
    by_ini = settings(tmp_path, ini={"local_budget": "0.5"}, **given, **attacks)
    assert by_ini.cases() == made.cases()
    one = settings(tmp_path, local_budget="50%", case=["*/dice"], **given, **attacks)
    assert len(one.cases()) == 1


def test_a_local_budget_needs_a_modification(tmp_path: Path) -> None:
    """And must be a share."""
    given = {"model": ["a:b"], "local_budget": "0.5"}
    with pytest.raises(UsageError, match=r"--grb-local-budget 0.5 bounds .* no selected attack is"):
        settings(tmp_path, attack=["fgsm"], **given)
    with pytest.raises(UsageError, match="--grb-local-budget: '2' is not a budget; give a share"):
        settings(tmp_path, attack=["dice"], **(given | {"local_budget": "2"}))


@pytest.mark.parametrize("others", [[], ["synthetic-cora"]])
def test_a_local_budget_is_not_for_sets_of_graphs(tmp_path: Path, others: list[str]) -> None:
    """Whose cases would be left out without a word."""
    datasets = ["synthetic-molecules", *others]
    with pytest.raises(UsageError, match=r"--grb-local-budget 0.5 .* is a set of graphs, each of"):
        settings(tmp_path, model=["a:b"], dataset=datasets, attack=["prbcd"], local_budget="0.5")
