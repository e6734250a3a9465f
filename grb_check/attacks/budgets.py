"""Budgets of attacks on a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import torch

from grb_check.attacks.columns import ColumnLimits, limits_of
from grb_check.attacks.gangs import threat_of_gangs
from grb_check.attacks.modification.shared.edge_set import degrees_of, mask_of
from grb_check.attacks.modification.shared.removable import local_budgets
from grb_check.attacks.names import GANG, MOST_FLIPS, Gang, split_budget, split_gang
from grb_check.attacks.registry import (
    MOST_POISONED,
    flips_of,
    is_targeted,
    local_budget_of,
    source_of,
)
from grb_check.attacks.scenarios import INJECTION, MODIFICATION, POISONING, Scenario
from grb_check.attacks.threat import Threat
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.graph_dataset import AnyDataset, GraphDataset
from grb_check.datasets.published import injection_row
from grb_check.errors import UsageError, choose

MODIFIED_SHARE = 0.05  # of the edges, and of the targets
MOST_TARGETS = 1_000  # that are attacked one by one
NETTACK_SPARE = 2  # flips for a target beside as many as it has edges
# The injection budget that others are scaled from, of grb-cora at easy, medium and hard:
SCALED_FROM = 2_680  # nodes, of which a tenth are targets
NODES_PER_TARGET = 20 / 268
EDGES_PER_NODE = 20


def threat_of(dataset: AnyDataset, difficulty: str, scenario: str, attack: str) -> Threat:
    """Return the threat of a case, with the budgets that the name of its attack gives.

    Where edges have types, evasion chooses those of new ones, unless targets are attacked one by
    one.

    Poisoning where models learn on the graph of the training nodes alone: only edges between these
    may change, budgets are shares of that graph's edges, and no features change.

    Raises:
        UsageError: as `threat_for`.
    """
    threat = _budgets_of(dataset, difficulty, scenario, attack)
    given = dataset.given_edges
    chooses = scenario != POISONING and threat.batch is None and threat.target_budgets is None
    if not chooses or given is None or given.types is None:
        return threat
    types = given.types.leaving.shape[1]
    parts = tuple(replace(part, edge_types=types) for part in threat.parts)
    return replace(threat, edge_types=types, parts=parts)


def _budgets_of(dataset: AnyDataset, difficulty: str, scenario: str, attack: str) -> Threat:
    budget, local_budget = split_budget(attack)[1], local_budget_of(scenario, attack)
    flips, gang = flips_of(scenario, attack), split_gang(attack)[1]
    kind: Scenario = INJECTION if source_of(scenario, attack)[0] == INJECTION else MODIFICATION
    if gang is not None:
        return _gangs(dataset, difficulty, kind, gang)
    if isinstance(dataset, GraphDataset) and flips is not None:
        return _equal_flips_in_graphs(dataset, flips)
    if is_targeted(scenario, attack):
        most = MOST_POISONED if scenario == POISONING else MOST_TARGETS
        return threat_to_each(dataset, difficulty, local_budget, most, flips)
    threat = threat_for(dataset, difficulty, kind, budget, local_budget)
    if scenario == POISONING and isinstance(dataset, Dataset) and not dataset.transductive:
        return _among_training_nodes(threat, dataset, budget, local_budget)
    return threat


def _gangs(dataset: AnyDataset, difficulty: str, scenario: Scenario, gang: Gang) -> Threat:
    if isinstance(dataset, GraphDataset):
        raise UsageError(
            f"dataset {dataset.name} is a set of graphs, whose targets are graphs, and a gang is "
            f"of nodes; leave {GANG}=SIZE out"
        )
    where = f"dataset {dataset.name} at {difficulty}"
    return threat_of_gangs(dataset.graph, threat_for(dataset, difficulty, scenario), gang, where)


def _among_training_nodes(
    threat: Threat, dataset: Dataset, budget: float | None, local_budget: float | None
) -> Threat:
    inside = mask_of(dataset.train.cpu(), dataset.num_nodes)
    edges = dataset.graph.edge_index.cpu()
    learnt = dataset.graph.clone()
    learnt.edge_index = edges[:, inside[edges].all(0)]
    learnt_dataset = replace(dataset, graph=learnt)
    if not learnt_dataset.num_edges:
        raise UsageError(
            f"dataset {dataset.name} has no edge between training nodes, which models alone see in "
            f"training; give --grb-training=transductive"
        )
    everything = inside * (dataset.num_nodes - 1)
    return replace(
        threat,
        edge_budget=_part(MODIFIED_SHARE if budget is None else budget, learnt_dataset.num_edges),
        local_budgets=everything
        if local_budget is None
        else _local_budgets(learnt_dataset, local_budget),
        modified_nodes=0,
    )


def threat_for(
    dataset: AnyDataset,
    difficulty: str,
    scenario: Scenario,
    budget: float | None = None,
    local_budget: float | None = None,
) -> Threat:
    """Return the threat to the test nodes of one difficulty, by the rule for the scenario.

    Args:
        dataset: gives targets, sizes and the range of features.
        difficulty: one of the dataset's.
        scenario: `modification` or `injection`.
        budget: another share than the rule's, above 0 and at most 1, rounded likewise.
        local_budget: modification: most changed edges at each node as a share of its degree, see
            `local_budgets`; None for no such bound.

    Raises:
        UsageError: the difficulty or scenario is unknown, or the difficulty or a local budget is
            not available for a set of graphs, or the local budget allows no change at all.
    """
    if difficulty not in dataset.test:
        known = ", ".join(dataset.test)
        recall = dataset.recall if isinstance(dataset, Dataset) else None
        of_class = "" if recall is None else f" with test nodes of class {recall.positive}"
        raise UsageError(
            f"difficulty is {difficulty!r}; dataset {dataset.name} has {known}{of_class}; name "
            f"them with --grb-difficulty={known.replace(', ', ',')}"
        )
    choose("scenario", scenario, (MODIFICATION, INJECTION))
    share = MODIFIED_SHARE if budget is None else budget
    if not isinstance(dataset, GraphDataset):
        if scenario == INJECTION:
            return _injected(dataset, difficulty, budget)
        return _modified(dataset, difficulty, share, local_budget)
    if local_budget is not None:
        raise UsageError(
            f"local_budget is {local_budget:g}, but dataset {dataset.name} is a set of graphs, "
            f"whose graphs have budgets but whose nodes have none; leave it out"
        )
    rule = _nodes_in_graphs if scenario == INJECTION else _flips_in_graphs
    return rule(dataset, share)


def _modified(
    dataset: Dataset, difficulty: str, share: float, local_budget: float | None
) -> Threat:
    """Return the threat of changes to a share of the edges and of the targets' features.

    By default 5 % of the graph's undirected edges, as in the paper's modification experiments, and
    the features of 5 % of the targets; each rounded down, at least 1 if there is any.
    """
    targets = dataset.test[difficulty]
    return Threat(
        scenario=MODIFICATION,
        targets=targets,
        edge_budget=_part(share, dataset.num_edges),
        local_budgets=None if local_budget is None else _local_budgets(dataset, local_budget),
        modified_nodes=_part(share, targets.numel()),
        feature_range=dataset.feature_range,
        columns=_columns(dataset),
    )


def _columns(dataset: AnyDataset) -> ColumnLimits | None:
    """The limits of each column of features as given; GRB's protocol has one range for all.

    (our choice: columns of data as given have units of their own)
    """
    if dataset.features != "given":
        return None
    if isinstance(dataset, GraphDataset):
        return None if dataset.is_one_hot else limits_of(dataset.training_graphs.x)
    return limits_of(dataset.graph.x)


def _injected(dataset: Dataset, difficulty: str, share: float | None) -> Threat:
    r"""Return the threat of nodes that are added to a graph.

    On GRB's five datasets as published (same name, numbers of nodes and features): Table 12 of
    `Graph Robustness Benchmark <https://arxiv.org/abs/2111.04314>`_.

    On any other: nodes and edges scaled from the row of grb-cora. For N nodes and t targets, with
    :math:`c = \max(1, (N / 2680)^{0.4})`,

    .. math:: \text{nodes} = \tfrac{20}{268} \cdot t / c, \qquad
        \text{edges per node} = 20 \cdot c,

    rounded, at least 1 node, at most t edges; features stay in the range of the dataset, and each
    column of features as given in its own. A larger
    graph thus gets fewer nodes for each target with more edges each, and always 1.5 injected edges
    per target. The rule gives grb-cora's row exactly (20 x 20, full 60 x 20); for easy it gives
    grb-citeseer 22 x 21 (published 30 x 20), grb-flickr 164 x 81 (200 x 100), grb-reddit 291 x 119
    (500 x 200), grb-aminer 544 x 181 (500 x 100): each figure within a factor of 1.9.

    A share is of injected nodes among the targets; the edges of each node stay the same. Where
    figures are recalls, targets are few, and nodes and edges are scaled on all data.
    """
    targets, row = dataset.test[difficulty], injection_row(dataset)
    low, high = dataset.feature_range if row is None else row["feature_range"]
    if row is None or dataset.recall is not None:
        growth = max(1.0, (dataset.num_nodes / SCALED_FROM) ** 0.4)
        nodes = max(1, round(targets.numel() * NODES_PER_TARGET / growth))
        edges = min(targets.numel(), round(EDGES_PER_NODE * growth))
    else:
        nodes, edges = row["injected_nodes"][difficulty], row["edges_per_injected_node"]
    return Threat(
        scenario=INJECTION,
        targets=targets,
        injected_nodes=nodes if share is None else _part(share, targets.numel()),
        edges_per_injected_node=edges,
        feature_range=(low, high),
        columns=_columns(dataset) if row is None else None,
    )


def _local_budgets(dataset: Dataset, share: float) -> torch.Tensor:
    result = local_budgets(dataset.graph, share)
    if not result.any() and dataset.num_edges:
        most = int(degrees_of(dataset.graph).max())
        raise UsageError(
            f"local_budget is {share:g}, which allows no change at any node of dataset "
            f"{dataset.name}, whose largest degree is {most}; give at least {1 / most:.2g}"
        )
    return result


def threat_to_each(
    dataset: AnyDataset,
    difficulty: str,
    local_budget: float | None = None,
    most: int = MOST_TARGETS,
    flips: int | None = None,
) -> Threat:
    """Return the threat to the test nodes of one difficulty, each attacked on its own.

    The edge budget of a target of degree d is d + 2, as in `Adversarial Attacks on Neural Networks
    for Graph Data <https://arxiv.org/abs/1805.07984>`_ (Zügner et al. 2018, section 5), or the
    local budget's share of d, rounded down, at least 1; and never more than `MOST_FLIPS` (our
    choice) or than there are pairs with the target. Of more than `most` targets that many are
    drawn, with a seed that is always the same: each is attacked, and each model is called, or
    trained, once for each of them. (our choice) With `flips` that is the budget of each.

    Raises:
        UsageError: the difficulty is unknown, or the dataset is a set of graphs.
    """
    whole = threat_for(dataset, difficulty, MODIFICATION, local_budget=local_budget)
    if whole.batch is not None:
        raise UsageError(
            f"dataset {dataset.name} is a set of graphs, which attacks on single nodes cannot "
            f"attack; leave them out"
        )
    targets = whole.targets
    if targets.numel() > most:
        order = torch.randperm(targets.numel(), generator=torch.Generator().manual_seed(0))
        targets = targets[order[:most].sort().values.to(targets.device)]
    positions = targets.cpu()
    if flips is not None:
        budgets = torch.full_like(positions, flips)
    elif whole.local_budgets is None:
        budgets = degrees_of(dataset.graph)[positions] + NETTACK_SPARE
    else:
        budgets = whole.local_budgets[positions].clamp(min=1)
    budgets = budgets.clamp(max=min(MOST_FLIPS, dataset.num_nodes - 1))
    return Threat(
        scenario=MODIFICATION,
        targets=targets,
        edge_budget=int(budgets.sum()),
        target_budgets=budgets,
    )


def settings_for(dataset: AnyDataset, scenario: str) -> Mapping[str, object]:
    """Return the `iterations` and `step_size` that GRB's Table 12 has for attacks on a dataset.

    Empty for modification, and for all datasets but GRB's as published, see `threat_for`.
    """
    if scenario != INJECTION or isinstance(dataset, GraphDataset):
        return {}
    row = injection_row(dataset)
    return {} if row is None else {name: row[name] for name in ("iterations", "step_size")}


def _nodes_in_graphs(dataset: GraphDataset, share: float) -> Threat:
    """Return the threat of nodes that are added to each graph of a set.

    By default 5 % of the nodes of each graph, rounded down, at least 1, each with as many edges as
    nodes of the training graphs have on average, rounded, at least 1: an injected node has an
    ordinary degree. Its features stay in the range of the columns of the training graphs; if each
    row of these has one 1 and else 0, so has each injected row. (our choice; GRB injects into
    single graphs)
    """
    sizes = torch.bincount(dataset.graph.batch, minlength=dataset.num_graphs)
    budgets = torch.tensor([_part(share, count) for count in sizes.tolist()], dtype=torch.int64)
    return Threat(
        scenario=INJECTION,
        targets=dataset.test["full"],
        injected_nodes=int(budgets.sum()),
        edges_per_injected_node=max(1, round(dataset.mean_degree)),
        feature_range=dataset.feature_range,
        batch=dataset.graph.batch.cpu(),
        node_budgets=budgets,
        columns=_columns(dataset),
        one_hot=dataset.is_one_hot,
    )


def _flips_in_graphs(dataset: GraphDataset, share: float) -> Threat:
    """Return the threat of changed edges in each graph of a set; no features change.

    By default 5 % of the undirected edges of each graph, rounded down, at least 1 if there is any,
    as in `On the Adversarial Robustness of Graph Contrastive Learning Methods
    <https://arxiv.org/abs/2311.17853>`_ (Guerranti et al. 2023, section 3.1, which does not specify
    the rounding).
    """
    edges = dataset.edges_of_graphs.tolist()
    return _flips_within(dataset, torch.tensor([_part(share, count) for count in edges]))


def _equal_flips_in_graphs(dataset: GraphDataset, flips: int) -> Threat:
    """Return the threat of the same number of flips in each graph of a set, at most its pairs."""
    sizes = torch.bincount(dataset.graph.batch.cpu(), minlength=dataset.num_graphs)
    return _flips_within(dataset, (sizes * (sizes - 1) // 2).clamp(max=flips))


def _flips_within(dataset: GraphDataset, budgets: torch.Tensor) -> Threat:
    return Threat(
        scenario=MODIFICATION,
        targets=dataset.test["full"],
        edge_budget=int(budgets.sum()),
        batch=dataset.graph.batch.cpu(),
        edge_budgets=budgets,
    )


def _part(share: float, count: int) -> int:
    """Return that share of `count`, rounded down, at least 1 unless `count` is 0."""
    exact = Fraction(str(share))  # 29 % of 100 is 29; 0.29 * 100 is less
    return max(int(exact * count), min(1, count))
