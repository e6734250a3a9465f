"""The check that a finished model gets the edges that it was trained on, as far as one can tell.

Code that trains a model often makes the edges two-way, or drops self-loops, after it has loaded the
graph. Such a model is another one on the edges of the data.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import replace

from grb_check.datasets.graph_dataset import AnyDataset
from grb_check.errors import ModelError
from grb_check.evaluation.feature_scale import clearly_better
from grb_check.evaluation.trained_model import TrainedModel, predict
from grb_check.gradients.victim import Victim
from grb_check.victims.checks import OtherEdgesWarning


def warn_of_better_edges(model: TrainedModel, dataset: AnyDataset) -> None:
    """Warn if a finished model is clearly better with each pair of nodes as two-way edges.

    Args:
        model: with its answers on the dataset.
        dataset: on the device; nothing is checked if it has no other edges, or attributes of edges.

    Warns:
        OtherEdgesWarning: it is; says how to give such edges.
    """
    victim = model.victim
    given = dataset.given_edges
    if given is None or given.attributes or not isinstance(victim, Victim):
        return
    plain = replace(victim, adapter=replace(victim.adapter, given_edges=None))
    nodes, truth = dataset.tested.cpu(), dataset.graph.y.cpu()
    with suppress(ModelError):
        right = (predict(plain, dataset.graph, 0) == truth)[nodes]
        current = (model.predicted == truth)[nodes]
        if clearly_better(right, current):
            msg = (
                f"model {victim.name} is finished, and right for {right.float().mean():.1%} of the "
                f"test {victim.adapter.one_for}s with two-way edges and without self-loops, but "
                f"for {current.float().mean():.1%} with the edges of the data; if it was trained "
                f"on the former, give the data so (torch_geometric.utils.to_undirected, "
                f"remove_self_loops)"
            )
            warnings.warn(msg, OtherEdgesWarning, stacklevel=2)
