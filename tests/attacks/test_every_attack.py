"""What holds for every attack of the catalogue; a new attack is a new row there."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import LinearModel, graph_of, graphs, threats

from grb_check.attacks import attack_names, describe, load_attack
from grb_check.attacks.injection.fgsm import InjectionFgsm
from grb_check.attacks.injection.pgd import InjectionPgd
from grb_check.attacks.modification.dice import ModificationDice
from grb_check.attacks.modification.rnd import ModificationRnd
from grb_check.attacks.protocol import Attack
from grb_check.attacks.threat import Perturbation, Threat, verify
from grb_check.errors import UsageError

TENSORS = (
    "added_edges",
    "removed_edges",
    "injected_x",
    "injected_edges",
    "modified_nodes",
    "modified_x",
)
# Few steps: what is tested here does not depend on how far a search gets.
QUICK = {
    ("injection", "fgsm"): InjectionFgsm(iterations=3),
    ("injection", "pgd"): InjectionPgd(iterations=3),
}

every_attack = pytest.mark.parametrize(("scenario", "name"), attack_names(), ids="/".join)


def quick(scenario: str, name: str) -> Attack:
    return QUICK.get((scenario, name)) or load_attack(scenario, name)


def run(attack: Attack, graph, threat: Threat, seed: int) -> Perturbation:
    model = LinearModel(graph.x.shape[1], int(graph.y.max()) + 1)
    return attack.perturb(graph, threat, model, torch.Generator().manual_seed(seed))


def unused(perturbation: Perturbation, threat: Threat) -> int:
    changed = perturbation.added_edges.shape[1] + perturbation.removed_edges.shape[1]
    links = perturbation.injected_edges.shape[1]
    allowed = threat.injected_nodes * threat.edges_per_injected_node
    nodes = threat.injected_nodes - perturbation.injected_x.shape[0]
    return threat.edge_budget - changed + allowed - links + nodes


@every_attack
@given(st.data(), st.integers(0, 2**32))
@settings(deadline=None, max_examples=50)
def test_budget_is_kept_and_used_or_the_rest_explained(scenario, name, data, seed) -> None:
    """On odd graphs and budgets the perturbation verifies; what is unused has a note."""
    graph = data.draw(graphs())
    threat = data.draw(threats(graph, scenario))
    perturbation = run(quick(scenario, name), graph, threat, seed)
    verify(perturbation, graph, threat)
    assert bool(unused(perturbation, threat)) == bool(perturbation.notes)


@every_attack
@given(st.data(), st.integers(0, 2**32))
@settings(deadline=None, max_examples=20)
def test_same_seed_gives_the_same_perturbation(scenario, name, data, seed) -> None:
    """The generator is the only source of randomness, and inputs are left as they are."""
    graph = data.draw(graphs())
    threat = data.draw(threats(graph, scenario))
    before, state = graph.clone(), torch.get_rng_state()
    first = run(quick(scenario, name), graph, threat, seed)
    torch.rand(3)
    second = run(quick(scenario, name), graph, threat, seed)
    assert all(torch.equal(getattr(first, part), getattr(second, part)) for part in TENSORS)
    torch.set_rng_state(state)
    run(quick(scenario, name), graph, threat, seed)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(before[part], graph[part]) for part in ("x", "edge_index", "y"))


@every_attack
def test_other_seed_gives_another_perturbation(scenario, name) -> None:
    """Two seeds differ on a graph with many choices."""
    graph = large_graph()
    threat = Threat(
        scenario=scenario,
        targets=torch.arange(0, 200, 2),
        edge_budget=20 * (scenario == "modification"),
        injected_nodes=3 * (scenario == "injection"),
        edges_per_injected_node=5 * (scenario == "injection"),
        feature_range=(-1.0, 1.0),
    )
    first, second = (run(quick(scenario, name), graph, threat, seed) for seed in (0, 1))
    assert not all(torch.equal(getattr(first, part), getattr(second, part)) for part in TENSORS)


def large_graph():
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(200, (400, 2), generator=generator).tolist()
    edges = {(min(pair), max(pair)) for pair in ends if pair[0] != pair[1]}
    return graph_of(200, sorted(edges), y=torch.arange(200) % 4)


@every_attack
def test_attack_says_who_it_is(scenario, name) -> None:
    """The catalogue's key is the attack's own name and scenario, and it fits the protocol."""
    attack = load_attack(scenario, name)
    assert isinstance(attack, Attack)
    assert (scenario, name) == (attack.scenario, attack.name)
    assert attack.knowledge in ("black-box", "white-box")


def test_description_names_class_version_and_settings() -> None:
    """The store's key changes with every setting."""
    expected = (
        "grb_check.attacks.injection.fgsm:InjectionFgsm v1 (step_size=0.01, iterations=7, "
        "patience=None, objective='tanh_margin')"
    )
    assert expected == describe(InjectionFgsm(iterations=7, patience=None))
    assert describe(ModificationDice()) != describe(ModificationDice(removal_share=0.4))


def test_unknown_attack_lists_the_known_and_the_nearest() -> None:
    """A misspelt name gets all names and the most similar one."""
    with pytest.raises(UsageError, match="there are injection/rnd, injection/fgsm"):
        load_attack("injection", "fsgm")
    with pytest.raises(UsageError, match="unknown attack modification/pgd"):
        load_attack("modification", "pgd")


@pytest.mark.parametrize("attack", [ModificationRnd, ModificationDice])
@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_removal_share_outside_zero_to_one_is_refused(attack, share) -> None:
    """The share is named with the value given."""
    with pytest.raises(UsageError, match=r"removal_share is .* allowed is 0 to 1"):
        attack(removal_share=share)


def test_catalogue_imports_no_torch() -> None:
    """Names can be listed, and a wrong one refused, without loading torch."""
    code = (
        "import sys, grb_check.attacks as a, grb_check.store\n"
        "a.attack_names()\n"
        "try: a.load_attack('injection', 'x')\n"
        "except Exception as error: print(type(error).__name__)\n"
        "print('torch' in sys.modules, 'numpy' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines() == ["UsageError", "False False"]
