"""Defectiveness of targets, and their groups by runner-up class."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.protocol import DifferentiableModel, members
from grb_check.attacks.threat import Threat


def clean_probabilities(graph: Data, threat: Threat, model: DifferentiableModel) -> Tensor:
    """Return class probabilities [t, c] of the targets in the clean graph, mean over members."""
    with torch.no_grad():
        logits = [member(graph.x, graph.edge_index) for member in members(model)]
    return mean_probabilities([output[threat.targets] for output in logits])


def mean_probabilities(logits: Sequence[Tensor]) -> Tensor:
    """Return mean class probabilities [t, c] from the logits [t, c] of each member."""
    return torch.stack([output.detach().softmax(1) for output in logits]).mean(0)


def defectiveness(graph: Data, links: Tensor, threat: Threat, certainty: Tensor) -> Tensor:
    r"""Return the defectiveness of each target, the expected effect of a link to it: float [t].

    .. math:: (p_v + 2) \left(\frac{0.9}{d_v} + \frac{0.1}{\sqrt{d_v b}}\right)

    with the probability p of the label to move away from, the degree d including self-loop and
    injected links, and b edges of an injected node: the score of GRB's reference code for TDGIA
    (Zou et al. 2021, section 4.3). A link to a node of low degree makes up a large share of the
    messages to it, and is wasted if the node is already misclassified.

    Args:
        graph: clean graph; `y` holds the labels of the targets.
        links: `injected_edges` [2, e] so far.
        threat: gives the targets and b.
        certainty: class probabilities [t, c] of the targets.
    """
    label_certainty = certainty.gather(1, graph.y[threat.targets][:, None]).squeeze(1)
    return _defectiveness(graph, links, threat, label_certainty, threat.targets)


def defectiveness_in_graphs(
    graph: Data, links: Tensor, threat: Threat, certainty: Tensor
) -> Tensor:
    """Return the defectiveness of every node of a set of graphs: float [N].

    As `defectiveness`, with the probability that the node's graph has its label.

    Args:
        graph: clean graphs side by side; `y` [G] holds the labels of the targets.
        links: `injected_edges` [2, e] so far.
        threat: gives the targets and b.
        certainty: class probabilities [t, c] of the targets.
    """
    label_certainty = certainty.new_zeros(graph.y.numel())
    label_certainty[threat.targets] = certainty.gather(1, graph.y[threat.targets][:, None]).squeeze(
        1
    )
    every = torch.arange(graph.num_nodes, device=label_certainty.device)
    return _defectiveness(graph, links, threat, label_certainty[graph.batch], every)


def _defectiveness(
    graph: Data, links: Tensor, threat: Threat, label_certainty: Tensor, nodes: Tensor
) -> Tensor:
    ends = torch.cat([graph.edge_index[0], links[1].to(graph.edge_index.device)])
    degrees = torch.bincount(ends, minlength=graph.num_nodes)[nodes] + 1.0
    edges = max(threat.edges_per_injected_node, 1)
    return (label_certainty + 2) * (0.9 / degrees + 0.1 / (degrees * edges).sqrt())


def label_groups(certainty: Tensor, labels: Tensor) -> Tensor:
    """Return one number int64 [t] for each pair of label and most probable other class.

    Args:
        certainty: class probabilities [t, c].
        labels: int64 [t].
    """
    runner_up = certainty.scatter(1, labels[:, None], -1.0).argmax(1)
    return labels * certainty.shape[1] + runner_up
