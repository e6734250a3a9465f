"""Predictions for the targets after an attack: on one attacked graph, or each on its own.

Or, after poisoning, those of a model that was trained on the attacked graph.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.parts import part_of
from grb_check.attacks.threat import Perturbation, Threat, apply
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.graph_dataset import AnyDataset
from grb_check.errors import ModelError
from grb_check.evaluation.trained_model import TrainedModel, predict
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.receptive_field import receptive_hops


def predicted_after(
    model: TrainedModel, graph: Data, perturbation: Perturbation, threat: Threat, seed: int
) -> Tensor:
    """Return the predicted classes of the targets after an attack, int64 [t], on the CPU.

    If targets are attacked one by one (`Perturbation.flip_targets`), the graph of each has only the
    flips made for it, and the model is called once for each: on the part of the graph that it
    depends on, if that is certain from the model's type (`receptive_field`). The parts of a threat
    have a graph each, too. Targets for which nothing changed keep their class on the clean graph.

    Args:
        model: trained.
        graph: clean graph.
        perturbation: within the threat.
        threat: with the targets.
        seed: of the global random states during each call.
    """
    if threat.parts:
        return _after_parts(model, graph, perturbation, threat, seed)
    targets = threat.targets.cpu()
    if not perturbation.flip_targets.numel():
        return predict(model.victim, apply(graph, perturbation), seed)[targets]
    result = model.predicted[targets].clone()
    nothing = graph.x.new_empty((0, graph.x.shape[1]))
    in_part = receptive_hops(model.victim.module) is not None
    for target in torch.unique(perturbation.flip_targets).tolist():
        attacked = apply(graph, perturbation.of_target(target))
        node = targets[target : target + 1]
        if not in_part:
            result[target] = predict(model.victim, attacked, seed)[node]
            continue
        at_node = node.to(graph.x.device)
        with isolated_randomness(seed), torch.no_grad():
            logits_of = model.victim.with_injected(attacked.x, attacked.edge_index, 0, at_node)
            result[target] = logits_of(nothing).argmax(dim=1).cpu()
    return result


def _after_parts(
    model: TrainedModel, graph: Data, perturbation: Perturbation, threat: Threat, seed: int
) -> Tensor:
    """Return the same of a threat in parts: each is measured on the whole graph, as in a replay."""
    result = []
    for number, part in enumerate(threat.parts):
        alone = part_of(perturbation, threat, number, graph.num_nodes)
        changed = any(tensor.numel() for tensor in alone.tensors())
        predicted = predict(model.victim, apply(graph, alone), seed) if changed else model.predicted
        result.append(predicted[part.targets.cpu()])
    return torch.cat(result)


def predicted_if_poisoned(
    model: TrainedModel, dataset: AnyDataset, targets: Tensor, perturbation: Perturbation
) -> Tensor:
    """Return the classes of the targets, int64 [t], that the model learns on the attacked graph.

    The same model is trained from the same seed, with the perturbation in the graph from the start;
    once for each target that has flips of its own.

    Args:
        model: trained on the clean graph.
        dataset: clean.
        targets: int64 [t].
        perturbation: within the threat.

    Raises:
        ModelError: nothing was trained for the model, or it cannot be trained on that graph.
    """
    if model.train is None:
        raise ModelError(
            f"model {model.victim.name} is not trained here, so that no graph can poison it; give "
            f"a factory of the untrained model, or select the same attack without poisoning/"
        )
    targets = targets.cpu()
    if not perturbation.flip_targets.numel():
        return model.train(perturbed(dataset, perturbation)).predicted[targets]
    result = model.predicted[targets].clone()
    for target in torch.unique(perturbation.flip_targets).tolist():
        trained = model.train(perturbed(dataset, perturbation.of_target(target)))
        result[target] = trained.predicted[targets[target]]
    return result


def perturbed(dataset: AnyDataset, perturbation: Perturbation) -> AnyDataset:
    """Return a dataset with the perturbation in its graph, of a form that datasets have."""
    graph = apply(dataset.graph, perturbation)
    row, column = graph.edge_index
    graph.edge_index = graph.edge_index[:, (row * graph.num_nodes + column).argsort()]
    if isinstance(dataset, Dataset):  # a user gave the clean graph
        return replace(dataset, graph=graph, user_graph=None)
    return replace(dataset, graph=graph)
