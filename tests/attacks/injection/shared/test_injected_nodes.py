"""Injected nodes and the model's answer: the same in each way of asking."""

from __future__ import annotations

from dataclasses import replace

import torch
from searched_injections import DATASET, TARGETS, THREAT, class_model, question

from grb_check.attacks.injection.shared.injected_nodes import (
    LinkedNodes,
    as_injected,
    fewest_right,
    strongest,
)
from grb_check.attacks.injection.shared.links import random_links
from grb_check.attacks.referee import verify
from grb_check.attacks.threat import Perturbation


def linked(seed: int = 0) -> LinkedNodes:
    links, _ = random_links(THREAT, torch.Generator().manual_seed(seed))
    return LinkedNodes(question(class_model()), links)


def features(seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand((THREAT.injected_nodes, DATASET.num_features), generator=generator)


def test_a_plain_call_gives_the_same_answer() -> None:
    nodes = linked()
    often, once = nodes.asked(features(0)), nodes.asked_once(features(0))
    torch.testing.assert_close(often.logits, once.logits)
    torch.testing.assert_close(often.margins, once.margins)
    assert often.links is once.links is nodes.links
    assert torch.equal(THREAT.targets[often.ends], nodes.links[1])


def test_a_perturbation_is_a_state_if_its_nodes_are_linked_to_targets() -> None:
    nodes = linked()
    given = Perturbation(injected_x=features(0), injected_edges=nodes.links)
    verify(given, DATASET.graph, THREAT)
    state = as_injected(nodes.question, given)
    assert state is not None
    torch.testing.assert_close(state.logits, nodes.asked(features(0)).logits)
    others = torch.arange(DATASET.num_nodes)[
        ~torch.isin(torch.arange(DATASET.num_nodes), THREAT.targets)
    ]
    elsewhere = nodes.links.clone()
    elsewhere[1, 0] = others[0]
    assert as_injected(nodes.question, replace(given, injected_edges=elsewhere)) is None


def test_the_budget_of_a_perturbation_is_what_it_uses() -> None:
    nodes = linked()
    few = nodes.links[:, (nodes.links[0] < 2)][:, :-2]
    state = as_injected(
        nodes.question, Perturbation(injected_x=features(0)[:2], injected_edges=few)
    )
    assert state is not None
    used = state.question.threat
    assert (used.injected_nodes, used.edges_per_injected_node) == (2, 5)


def test_the_strongest_state_has_the_largest_value() -> None:
    states = [linked(seed).asked(features(seed)) for seed in range(4)]
    assert strongest(states).value == max(state.value for state in states)


def test_the_last_choice_goes_by_targets_left() -> None:
    """Where a smooth count says otherwise; among equals by the smooth count."""
    state = linked().asked(features(0))
    of_margins = [
        replace(state, margins=torch.tensor(margins))
        for margins in ([-0.1, -0.1, 0.9], [0.1, 0.1, -0.9], [0.2, 0.1, -0.9])
    ]
    assert strongest(of_margins) is of_margins[0]
    assert fewest_right(of_margins) is of_margins[2]


def test_links_to_others_than_targets_are_asked_and_count_as_the_mean_of_all() -> None:
    """After the targets come the other nodes that a gang's accounts may be linked to."""
    members = TARGETS[:8]
    everyone = torch.arange(DATASET.num_nodes)
    other = everyone[~torch.isin(everyone, members)]
    ends = torch.cat([other[:5], members])
    threat = replace(THREAT, targets=members, ends=ends)
    links, _ = random_links(threat, torch.Generator().manual_seed(0))
    links[1, ::3] = other[0]
    links = links.unique(dim=1)
    nodes = LinkedNodes(question(class_model(), threat), links)
    assert torch.equal(torch.cat([members, other[:5]])[nodes.ends], links[1])
    often, once = nodes.asked(features(0)), nodes.asked_once(features(0))
    torch.testing.assert_close(often.logits, once.logits)
    of_targets = torch.isin(links[1], members)
    margins = torch.full(links.shape[1:], float(often.margins.mean()))
    margins[of_targets] = often.margins[nodes.ends[of_targets]]
    sums = torch.zeros(THREAT.injected_nodes).index_add(0, links[0], margins)
    torch.testing.assert_close(often.of_nodes(), sums)
    given = Perturbation(injected_x=features(0), injected_edges=links)
    verify(given, DATASET.graph, threat)
    assert as_injected(nodes.question, given) is not None
