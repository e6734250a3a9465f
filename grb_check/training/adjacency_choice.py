"""The choice of the matrix for models called as `(x, adj)` that do not say which they need.

Code of the classic kind expects a normalised adjacency with self-loops, which its data loader made.
A model that gets another one is a weaker model than its authors meant, and ranks above sound ones
where attacks use its adjacency.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.errors import ModelError
from grb_check.training.copies import copy_of
from grb_check.training.nodes import TrainingRun, counted, score_and_loss
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.adapter import Adapter
from grb_check.victims.adjacency import ADJACENCY_RULES, MOST_DENSE_NODES, AdjacencyRule
from grb_check.victims.checks import warn_of_chosen_adjacency
from grb_check.victims.wrappers import evaluating


def with_rule(adapter: Adapter, rule: AdjacencyRule) -> Adapter:
    """Return a model that gets the matrix of a rule."""
    return replace(adapter, convention=replace(adapter.convention, adj=rule))


def best_in_training(adapter: Adapter, train: Callable[[Adapter], TrainingRun]) -> Adapter:
    """Return the copy of an untrained model that validates best when each rule trains one.

    Args:
        adapter: of the module, its lazy parameters initialised; it stays untrained, unless it
            cannot be copied: then it is trained on the adjacency as it is.
        train: trains a module in place.

    Raises:
        ModelError: it can be trained under none of the rules.
    """
    tried: dict[AdjacencyRule, tuple[Adapter, float]] = {}
    reason: ModelError | None = None
    for rule in ADJACENCY_RULES:
        module = copy_of(adapter.module)
        copied = with_rule(replace(adapter, module=module), rule)
        if module is adapter.module:
            train(copied)
            return copied
        try:
            tried[rule] = copied, train(copied).accuracy
        except ModelError as error:
            reason = reason or error
    if reason is not None and not tried:
        raise reason
    best = max(tried, key=lambda rule: tried[rule][1])
    scores = {rule: tried[rule][1] if rule in tried else None for rule in ADJACENCY_RULES}
    warn_of_chosen_adjacency(adapter.name, best, scores)
    return tried[best][0]


def best_of_trained(
    adapter: Adapter, view: Data, answers: Callable[[Adapter, Data], Tensor], *, seed: int
) -> Adapter:
    """Return a trained model with the rule under which it is best on the validation nodes.

    Args:
        adapter: of the module.
        view: for validation.
        answers: returns the logits of a model on the view; of an encoder those of a probe.
        seed: of the global random states.
    """
    rows = counted(view, "val_mask")
    scores: dict[AdjacencyRule, float | None] = dict.fromkeys(ADJACENCY_RULES)
    for rule in ADJACENCY_RULES:
        with suppress(ModelError), isolated_randomness(seed), torch.no_grad():
            logits = answers(with_rule(adapter, rule), view)[rows]
            scores[rule], _ = score_and_loss(logits, view.y[rows], view.get("recall"))
    best = max(ADJACENCY_RULES, key=lambda rule: scores[rule] or 0.0)
    warn_of_chosen_adjacency(adapter.name, best, scores)
    return with_rule(adapter, best)


def needs_dense(adapter: Adapter, view: Data, num_nodes: int, seed: int) -> bool:
    """Return whether a module fails with a sparse matrix, and answers with a dense one.

    Args:
        adapter: of the module.
        view: to call it on.
        num_nodes: of the largest graph that it will be called on.
        seed: of the global random states.
    """
    if "adj" not in adapter.convention.roles or num_nodes > MOST_DENSE_NODES:
        return False
    error = first_error(adapter, view, seed)
    if error is None or "sparse" not in str(error).lower():
        return False
    dense = replace(adapter, convention=replace(adapter.convention, dense=True))
    return first_error(with_any_rule(dense, view, seed), view, seed) is None


def with_any_rule(adapter: Adapter, view: Data, seed: int) -> Adapter:
    """Return a model whose `adj` is open with the first rule under which it answers, if any.

    Some fail at a node without edges, which a matrix with self-loops does not have.
    """
    if not adapter.adjacency_is_open:
        return adapter
    tried = [with_rule(adapter, rule) for rule in ADJACENCY_RULES]
    return next((one for one in tried if first_error(one, view, seed) is None), adapter)


def first_error(adapter: Adapter, view: Data, seed: int) -> ModelError | None:
    """Return the error of a call of a copy of the module, in evaluation mode; None without any."""
    trial = replace(adapter, module=copy_of(adapter.module))
    try:
        with evaluating(trial.module), isolated_randomness(seed), torch.no_grad():
            trial(view.x, view.edge_index)
    except ModelError as error:
        return error
    return None
