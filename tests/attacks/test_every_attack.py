"""Facts about every built-in attack; a new row of the registry is tested without a change here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from alternating import gcn_of, victim_of
from hypothesis import given, settings
from hypothesis import strategies as st
from quick_attacks import GLOBAL, INJECTION, MODIFICATION, quick
from strategies import LinearModel, UnweightedModel, graphs, threats

from grb_check.attacks.injection.fgsm import InjectionFgsm
from grb_check.attacks.modification.dice import ModificationDice
from grb_check.attacks.modification.rnd import ModificationRnd
from grb_check.attacks.names import has_setting
from grb_check.attacks.protocol import Attack, DifferentiableModel
from grb_check.attacks.referee import verify
from grb_check.attacks.registry import attack_names, describe, is_targeted, load_attack
from grb_check.attacks.threat import TENSORS, Perturbation, Threat, apply
from grb_check.errors import GradientError, UsageError
from grb_check.evaluation.surrogates import Ensemble
from grb_check.gradients.victim import Victim

ModelMaker = Callable[[int, int], DifferentiableModel]

every_attack = pytest.mark.parametrize(
    ("scenario", "name"), [pytest.param(*pair, id="/".join(pair)) for pair in attack_names()]
)


def suited(scenario: str, name: str, threat: Threat) -> Threat:
    """The threat to all targets together, or one to each of them with a share of its budget."""
    if not is_targeted(scenario, name):
        return threat
    targets = threat.targets.numel()
    budgets = torch.full((targets,), threat.edge_budget // max(1, targets))
    return replace(threat, edge_budget=int(budgets.sum()), target_budgets=budgets, modified_nodes=0)


def of_edge_gradients(name: str) -> bool:
    """Whether an attack of that name needs gradients in the weights of edges."""
    return has_setting(load_attack("modification", name), "block_size")


def run(
    attack: Attack, graph, threat: Threat, seed: int, kind: ModelMaker = LinearModel
) -> Perturbation:
    model = kind(graph.x.shape[1], int(graph.y.max()) + 1)
    return attack.perturb(graph, threat, model, torch.Generator().manual_seed(seed))


def ensemble(num_features: int, num_classes: int) -> Ensemble:
    return Ensemble(tuple(LinearModel(num_features, num_classes, seed) for seed in (1, 2)))


def partly_weighted(num_features: int, num_classes: int) -> Ensemble:
    return Ensemble(
        (LinearModel(num_features, num_classes), UnweightedModel(num_features, num_classes, 1))
    )


def alternating(num_features: int, num_classes: int) -> Victim:
    """A model with gradients of all pairs."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return victim_of(gcn_of(num_features, (4,), num_classes=num_classes), num_classes)


def mixed(num_features: int, num_classes: int) -> Ensemble:
    """One member has gradients of all pairs, the other of given pairs only."""
    return Ensemble(
        (alternating(num_features, num_classes), LinearModel(num_features, num_classes))
    )


def alternating_pair(num_features: int, num_classes: int) -> Ensemble:
    return Ensemble((alternating(num_features, num_classes),) * 2)


def unused(perturbation: Perturbation, graph, threat: Threat) -> int:
    changed = perturbation.added_edges.shape[1] + perturbation.removed_edges.shape[1]
    links = perturbation.injected_edges
    spent = links.shape[1] + int((links[1] >= graph.num_nodes).sum())  # inner links count at both
    allowed = threat.injected_nodes * threat.edges_per_injected_node
    nodes = threat.injected_nodes - perturbation.injected_x.shape[0]
    return threat.edge_budget - changed + allowed - spent + nodes


def check_budget(perturbation: Perturbation, graph, threat: Threat) -> None:
    """The perturbation verifies, unused budget has a note, and no link is repeated."""
    verify(perturbation, graph, threat)
    of_budget = [note for note in perturbation.notes if "not exchanged" not in note]
    assert bool(unused(perturbation, graph, threat)) == bool(of_budget), (
        f"unused budget needs a note, and used budget must have none: {perturbation.notes}"
    )
    links = perturbation.injected_edges.t().tolist()
    assert len(links) == len(set(map(tuple, links)))


@every_attack
@given(st.data(), st.integers(0, 2**32))
@settings(deadline=None, max_examples=25)
def test_budget_is_kept_and_used_or_the_rest_explained(scenario, name, data, seed) -> None:
    """On odd graphs and budgets the perturbation verifies, and unused budget has a note."""
    graph = data.draw(graphs())
    threat = suited(scenario, name, data.draw(threats(graph, scenario)))
    perturbation = run(quick(scenario, name), graph, threat, seed)
    check_budget(perturbation, graph, threat)
    assert not any("not exchanged" in note for note in perturbation.notes)


def variants(name: str) -> st.SearchStrategy[tuple[str, ModelMaker]]:
    """Modifiers, and a function that makes the model."""
    modifiers = ["", "+white-box"]
    modifiers += ["+hao", "+white-box+harmony=0.5"] * has_setting(
        load_attack("injection", name), "harmony"
    )
    models = [LinearModel, UnweightedModel, ensemble, partly_weighted]
    return st.tuples(st.sampled_from(modifiers), st.sampled_from(models))


@pytest.mark.parametrize("name", INJECTION)
@given(st.data(), st.integers(0, 2**32))
@settings(deadline=None, max_examples=40)
def test_budget_is_kept_by_every_variant(name, data, seed) -> None:
    """White-box, with harmony, against an ensemble, and if links cannot be relaxed."""
    graph = data.draw(graphs())
    threat = data.draw(threats(graph, "injection"))
    modifiers, kind = data.draw(variants(name))
    perturbation = run(quick("injection", name, modifiers), graph, threat, seed, kind)
    check_budget(perturbation, graph, threat)
    no_weights = name == "agia" and kind in (UnweightedModel, partly_weighted)
    expected = no_weights and perturbation.injected_x.shape[0] > 0
    assert expected == any("takes no weights of edges" in note for note in perturbation.notes)


def modification_variants(name: str) -> st.SearchStrategy[tuple[str, ModelMaker]]:
    """Modifiers that the attack takes, and a function that makes the model."""
    attack = load_attack("modification", name)
    settings_of = {
        "isolate": "+isolate=false",
        "restrict": "+restrict=deletions",
        "knowledge": "+black-box" if attack.knowledge == "white-box" else "+white-box",
    }
    modifiers = ["", *(text for key, text in settings_of.items() if has_setting(attack, key))]
    models = [
        LinearModel,
        UnweightedModel,
        alternating,
        ensemble,
        partly_weighted,
        mixed,
        alternating_pair,
    ]
    return st.tuples(st.sampled_from(modifiers), st.sampled_from(models))


@pytest.mark.parametrize("name", MODIFICATION)
@given(st.data(), st.integers(0, 2**32))
@settings(deadline=None, max_examples=20)
def test_budget_is_kept_by_every_variant_of_modification(name, data, seed) -> None:
    """For models with and without gradients; a missing gradient is an error that says so."""
    graph = data.draw(graphs())
    threat = suited("modification", name, data.draw(threats(graph, "modification")))
    modifiers, kind = data.draw(modification_variants(name))
    attack = quick("modification", name, modifiers)
    idle = not threat.edge_budget or not threat.targets.numel() or graph.num_nodes < 2
    if of_edge_gradients(name) and kind in (UnweightedModel, partly_weighted) and not idle:
        with pytest.raises(GradientError, match="no gradient for edges"):
            run(attack, graph, threat, seed, kind)
        return
    perturbation = run(attack, graph, threat, seed, kind)
    check_budget(perturbation, graph, threat)
    assert not ("deletions" in modifiers and perturbation.added_edges.numel())
    if "isolate" in modifiers:
        parts = [perturbation]
        if threat.target_budgets is not None:
            parts = [perturbation.of_target(index) for index in range(threat.targets.numel())]
        for part in parts:
            before, after = (
                torch.bincount(current.edge_index[0], minlength=graph.num_nodes)
                for current in (graph, apply(graph, part))
            )
            assert (after > 0)[before > 0].all()


@pytest.mark.parametrize("name", GLOBAL)
@given(st.data(), st.integers(0, 2**32))
@settings(deadline=None, max_examples=25)
def test_local_budgets_are_kept_by_every_modification(name, data, seed) -> None:
    """Whatever room the nodes have, with gradients of all pairs, of given ones, or without."""
    graph = data.draw(graphs())
    threat = data.draw(threats(graph, "modification", local=True))
    keeps = has_setting(load_attack("modification", name), "isolate")
    isolate = "+isolate=false" * (keeps and data.draw(st.booleans()))
    kind = data.draw(st.sampled_from([LinearModel, alternating]))
    perturbation = run(quick("modification", name, isolate), graph, threat, seed, kind)
    check_budget(perturbation, graph, threat)


@every_attack
@given(st.data(), st.integers(0, 2**32))
@settings(deadline=None, max_examples=10)
def test_same_seed_gives_the_same_perturbation(scenario, name, data, seed) -> None:
    """The generator is the only source of randomness, and inputs are not modified."""
    graph = data.draw(graphs())
    threat = suited(scenario, name, data.draw(threats(graph, scenario)))
    kind = data.draw(st.sampled_from([LinearModel, alternating]))
    before, state = graph.clone(), torch.get_rng_state()
    first = run(quick(scenario, name), graph, threat, seed, kind)
    torch.rand(3)
    second = run(quick(scenario, name), graph, threat, seed, kind)
    assert all(torch.equal(getattr(first, part), getattr(second, part)) for part in TENSORS)
    torch.set_rng_state(state)
    run(quick(scenario, name), graph, threat, seed, kind)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(before[part], graph[part]) for part in ("x", "edge_index", "y"))


def test_description_names_attack_version_and_what_is_not_the_default() -> None:
    """The store's key changes with every setting, and not with the location of the code."""
    assert describe(InjectionFgsm()) == "injection/fgsm v3"
    expected = "injection/fgsm v3 (iterations=7, patience=None)"
    assert expected == describe(InjectionFgsm(iterations=7, patience=None))
    assert describe(load_attack("injection", "fgsm", {"iterations": 7})) == (
        "injection/fgsm v3 (iterations=7)"
    )
    assert describe(load_attack("modification", "prbcd+polish")) == (
        "modification/prbcd v4 (polish=1000, search=3)"
    )
    assert describe(ModificationDice()) != describe(ModificationDice(removal_share=0.4))


DEFAULTS = Path(__file__).with_name("defaults.json")


@every_attack
def test_a_version_stands_for_its_defaults(scenario, name) -> None:
    """Names on disk leave out defaults, so that these must not change under a version."""
    attack = load_attack(scenario, name)
    defaults = {field.name: getattr(attack, field.name) for field in fields(attack)}
    known = json.loads(DEFAULTS.read_text())
    assert json.loads(json.dumps(defaults)) == known.get(describe(attack)), (
        f"{DEFAULTS.name} has no such row: {json.dumps(describe(attack))}: {json.dumps(defaults)}. "
        f"Whoever changes a default of an attack, or what it does, raises its `version` and adds "
        f"this row; rows never change"
    )


def test_unknown_attack_lists_the_known_and_the_nearest() -> None:
    """The message for a misspelt name lists all names."""
    with pytest.raises(UsageError, match="allowed: injection/rnd, injection/fgsm"):
        load_attack("injection", "fsgm")
    with pytest.raises(UsageError, match="unknown attack modification/tdgia"):
        load_attack("modification", "tdgia")


@pytest.mark.parametrize("attack", [ModificationRnd, ModificationDice])
@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_removal_share_outside_zero_to_one_is_refused(attack, share) -> None:
    """The message has the share and the value given."""
    with pytest.raises(UsageError, match=r"removal_share is .* must be from 0 to 1"):
        attack(removal_share=share)
