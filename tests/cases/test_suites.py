"""Suites and sets of graphs: what runs where little is said, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from settings_factory import settings

from grb_check.attacks.names import base_name
from grb_check.attacks.registry import canonical_name, load_attack, source_of, tagged
from grb_check.attacks.scenarios import EVASION, POISONING
from grb_check.cases.attack_pairs import attack_order, known_attacks, on_graphs
from grb_check.cases.suites import FOR_GRAPHS, SUITES, worst_members
from grb_check.errors import UsageError
from grb_check.settings.selecting import cases_of

MOLECULES = "synthetic-molecules"


@pytest.mark.parametrize("others", [("nettack",), ("nettack", "rnd")])
def test_attacks_on_single_targets_are_no_members_of_worst(others: tuple[str, ...]) -> None:
    """Alone they leave those of the suite `standard`."""
    selected = [("modification", name) for name in (*others, "worst")]
    members = worst_members(("modification", "worst+budget=0.1"), selected)
    if "rnd" in others:
        assert members == ("rnd+budget=0.1",)
    else:
        assert len(members) > 5
        assert "nettack" not in {member.partition("+")[0] for member in members}


def test_sets_of_graphs_alone_have_a_suite_of_their_own(tmp_path: Path) -> None:
    """Nothing to configure: the dataset is enough."""
    options = settings(tmp_path, model=["a:b"], dataset=[MOLECULES])
    assert options.suite == FOR_GRAPHS
    assert [case.id for case in cases_of(options)] == [
        f"{MOLECULES}/full/{scenario}/{attack}" for scenario, attack in tagged("graphs")
    ]


def test_a_run_of_both_gives_each_what_it_can_have(tmp_path: Path) -> None:
    """Attacks of nodes on the single graph, those of edges on both."""
    options = settings(
        tmp_path,
        model=["a:b"],
        dataset=["synthetic-cora", MOLECULES],
        difficulty=["easy"],
        attack=["dice,prbcd"],
    )
    assert [case.id for case in cases_of(options)] == [
        "synthetic-cora/easy/modification/dice",
        "synthetic-cora/easy/modification/prbcd",
        f"{MOLECULES}/full/modification/prbcd",
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"attack": ["dice"]}, "modification/dice cannot attack; allowed: injection/rnd"),
        ({"attack": ["prbcd,injection/speit"]}, "injection/speit cannot attack"),
        ({"suite": "local"}, "give --grb-suite=graphs, or name attacks"),
        ({"difficulty": ["hard"]}, "not have difficulty 'hard'; allowed: full"),
    ],
)
def test_what_sets_of_graphs_cannot_have_is_refused(
    tmp_path: Path, given: dict[str, object], message: str
) -> None:
    """Before any work, with what is allowed."""
    with pytest.raises(UsageError, match=message):
        settings(tmp_path, model=["a:b"], dataset=[MOLECULES], **given)


def test_a_name_of_two_scenarios_means_the_one_that_is_possible(tmp_path: Path) -> None:
    """`worst` and `rnd` are names of both."""
    options = settings(tmp_path, model=["a:b"], dataset=[MOLECULES], attack=["worst,grbcd"])
    assert [case.cell for case in cases_of(options)] == [
        "full/injection/worst",
        "full/modification/grbcd",
        "full/modification/worst",
    ]
    options = settings(tmp_path, model=["a:b"], dataset=[MOLECULES], attack=["pgd"])
    assert [case.cell for case in cases_of(options)] == ["full/injection/pgd"]


@pytest.mark.parametrize("name", ["contrastive", "contrastive-smoke"])
def test_contrastive_suites_bring_their_protocol_along(tmp_path: Path, name: str) -> None:
    """It gives way to what the user says."""
    dataset = ["synthetic-cora"]
    places = settings(tmp_path, model=["a:b"], suite=name, dataset=dataset).places
    assert (places.training, places.features) == ("transductive", "rows")
    assert places.split == SUITES[name].split
    protocol = {"training": "inductive", "features": "grb", "split": "grb"}
    places = settings(tmp_path, model=["a:b"], suite=name, dataset=dataset, **protocol).places
    assert (places.training, places.features, places.split) == ("inductive", "grb", "grb")


def test_other_suites_learn_as_grb_does(tmp_path: Path) -> None:
    """Inductively, on features and a split by the kind of dataset."""
    for name in ("smoke", "standard", "paper"):
        suite = SUITES[name]
        assert (suite.training, suite.features, suite.split) == ("inductive", None, None)


@pytest.mark.parametrize("option", ["training", "features"])
def test_wrong_words_are_answered_with_the_allowed_ones(tmp_path: Path, option: str) -> None:
    """As everywhere."""
    with pytest.raises(UsageError, match=f"unknown {option} 'x'; allowed:"):
        settings(tmp_path, model=["a:b"], **{option: "x"})


@pytest.mark.parametrize("name", ["contrastive-graphs", "graphs"])
def test_suites_of_graphs_hold_nothing_that_graphs_cannot_have(name: str) -> None:
    """All their attacks keep to the budget of each graph; the paper has modification only."""
    assert all(map(on_graphs, SUITES[name].attacks))
    injected = {scenario for scenario, _ in SUITES[name].attacks} == set(EVASION)
    assert injected == (name == FOR_GRAPHS)
    assert SUITES[name].difficulties == ("full",)


def test_suites_for_nodes_attack_a_model_that_they_know() -> None:
    """`smoke` once at each difficulty; `standard`, and so both `worst`, in both scenarios."""
    assert [name for _, name in SUITES["smoke"].attacks if "white-box" in name] == ["pgd+white-box"]
    adaptive = {pair for pair in SUITES["standard"].attacks if "white-box" in pair[1]}
    assert {scenario for scenario, _ in adaptive} == set(EVASION)
    for pair in SUITES["standard"].attacks:
        canonical_name(*pair)  # raises if the attack has no white-box form
    for scenario in EVASION:
        members = worst_members((scenario, "worst"), [])
        assert {(scenario, name) for name in members} >= {p for p in adaptive if p[0] == scenario}


def test_every_attack_of_a_suite_is_in_the_catalogue() -> None:
    """Once, by its canonical name, and in its order."""
    for suite in SUITES.values():
        plain = {source_of(*pair) for pair in suite.attacks if pair != (POISONING, "worst")}
        assert {(kind, base_name(name)) for kind, name in plain} <= set(known_attacks())
        assert all(canonical_name(*pair) == pair[1] for pair in suite.attacks)
        assert list(suite.attacks) == sorted(set(suite.attacks), key=attack_order)


def test_the_audit_has_a_worst_for_each_threat() -> None:
    """Made of the attacks of that threat, some that know the model and some that do not."""
    attacks = SUITES["audit"].attacks
    threats = [pair for pair in attacks if base_name(pair[1]) == "worst"]
    assert [name for _, name in threats] == ["worst", "worst", "worst+local=0.5"]
    members = [(kind, name) for kind, name in attacks if base_name(name) != "worst"]
    every = [
        (kind, member) for kind, name in threats for member in worst_members((kind, name), attacks)
    ]
    assert sorted(every) == sorted(members)
    for threat in threats:
        known = [
            load_attack(threat[0], member).knowledge for member in worst_members(threat, attacks)
        ]
        assert set(known) == {"black-box", "white-box"}


def test_the_worst_is_that_of_the_other_selected_attacks_of_its_scenario() -> None:
    """At its own budget, whatever theirs."""
    selected = [
        ("injection", "pgd"),
        ("modification", "dice+budget=0.3"),
        ("modification", "rnd+removal_share=0.1"),
        ("modification", "rnd+removal_share=0.1+budget=0.3"),
        ("modification", "worst"),
    ]
    members = ("rnd+removal_share=0.1", "dice")
    assert worst_members(("modification", "worst"), selected) == members
    assert worst_members(("modification", "worst+budget=0.2"), selected) == tuple(
        f"{name}+budget=0.2" for name in members
    )


def test_the_worst_alone_is_that_of_the_standard_suite() -> None:
    """Members are of its scenario, also if the selection lacks it and a node id names it."""
    for scenario in EVASION:
        for selected in (
            [(scenario, "worst"), ("poisoning", "rnd")],
            [(scenario, "rnd"), ("poisoning", "worst")],
            [],
        ):
            members = worst_members((scenario, "worst"), selected)
            assert [(scenario, name) for name in members] == [
                pair for pair in tagged("standard") if pair[0] == scenario
            ]


def test_the_worst_poisoning_is_that_of_its_suite() -> None:
    """With a local budget, which injections do not have, without those."""
    members = ("metattack", "meta-prbcd", "dice", "prbcd")
    assert set(worst_members((POISONING, "worst"), [])) == set(members)
    selected = [(POISONING, name) for name in ("tdgia", "dice", "worst+local=0.5")]
    assert worst_members((POISONING, "worst+local=0.5"), selected) == ("dice+local=0.5",)


def test_the_suite_fraud_brings_its_metric_along(tmp_path: Path) -> None:
    """It gives way to what the user says, and takes the class."""
    chosen = settings(tmp_path, model=["a:b"], suite="fraud")
    assert chosen.places.metric == "recall@0.01"
    assert {case.dataset for case in cases_of(chosen)} == {"synthetic-fraud"}
    assert all("+gang=10x" in case.attack for case in cases_of(chosen))
    chosen = settings(tmp_path, model=["a:b"], suite="fraud", positive="3")
    assert chosen.places.metric == "recall@0.01+positive=3"
    chosen = settings(tmp_path, model=["a:b"], suite="fraud", metric="recall@0.1")
    assert chosen.places.metric == "recall@0.1"
