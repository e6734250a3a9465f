"""The linear probe on the embeddings of an encoder: logistic regression, its strength chosen."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor
from torch_geometric.data import Data

from grb_check.datasets.graph_dataset import AnyDataset
from grb_check.datasets.recall import Recall
from grb_check.datasets.views import training_view, validation_view
from grb_check.errors import ModelError
from grb_check.training.nodes import score_and_loss
from grb_check.victims.adapter import Adapter
from grb_check.victims.checks import (
    DIVERGED,
    check_output,
)
from grb_check.victims.probed import Probed

# Weights of the L2 penalty beside the summed loss, on standardised embeddings; strongest first.
STRENGTHS: Final = (1000.0, 100.0, 10.0, 1.0, 0.1, 0.01)
MAX_ITERATIONS: Final = 1000
Probe = tuple[NDArray[np.float64], NDArray[np.float64]]  # weight [c, size], bias [c]


def probe(encoder: Adapter, dataset: AnyDataset, *, device: torch.device) -> Probed:
    """Fit a linear probe to the embeddings of the training nodes, or graphs.

    The penalty is the one of `STRENGTHS` with the highest validation accuracy, or average precision
    where figures are recalls, ties broken by the strongest; 1 if there is no validation set. The
    encoder is not changed.

    Raises:
        ModelError: the encoder raises, returns an invalid output, or changes when it is called.
    """
    encoder.module.eval()
    before = _state(encoder)
    with torch.no_grad():
        x, y, dtype = _embedded(encoder, training_view(dataset).to(device), "train_mask")
        validation = validation_view(dataset).to(device)
        held_out = _embedded(encoder, validation, "val_mask")[:2]
    _check_unchanged(before, encoder)
    recall = validation.get("recall")
    weight, bias = chosen_probe((x, y), held_out, dataset.num_classes, recall)
    return Probed(
        encoder,
        torch.from_numpy(weight).to(device, dtype),
        torch.from_numpy(bias).to(device, dtype),
    )


def chosen_probe(
    fitted: tuple[NDArray[np.float64], NDArray[np.int64]],
    held_out: tuple[NDArray[np.float64], NDArray[np.int64]],
    num_classes: int,
    recall: Recall | None = None,
) -> Probe:
    """Return the logistic regression with the penalty that is best on held-out data.

    Args:
        fitted: embeddings [n, size] and labels [n] to fit.
        held_out: the same, to choose the penalty by; may be empty.
        num_classes: number of classes.
        recall: what figures are of, see `score_and_loss`.
    """
    if not held_out[1].size:
        return fit_logistic_regression(*fitted, num_classes, 1.0)
    best, best_score, truth = None, -1.0, torch.from_numpy(held_out[1])
    for strength in STRENGTHS:
        weight, bias = fit_logistic_regression(*fitted, num_classes, strength)
        logits = torch.from_numpy(held_out[0] @ weight.T + bias)
        score, _ = score_and_loss(logits, truth, recall)
        if score > best_score:
            best, best_score = (weight, bias), score
    assert best is not None
    return best


def fit_logistic_regression(
    embeddings: NDArray[np.float64],
    labels: NDArray[np.int64],
    num_classes: int,
    strength: float,
) -> Probe:
    """Return weight [num_classes, size] and bias [num_classes] of the logistic regression

        min  sum_i -log softmax(W z_i + b)[y_i] + strength / 2 * |W|^2

    on standardised embeddings z, converted so that they apply to the embeddings themselves.
    Deterministic: full batch, from zero, in float64.
    """
    mean, deviation = embeddings.mean(axis=0), embeddings.std(axis=0)
    deviation[deviation < 1e-12] = 1.0  # a constant column carries no information
    # In torch, whose threads the harness sets: those of numpy's BLAS take eighty times as long
    # for products of this size when other processes compete for the cores.
    z = torch.from_numpy((embeddings - mean) / deviation)
    size = z.shape[1]
    one_hot = torch.from_numpy(np.eye(num_classes)[labels])  # [n, num_classes]

    def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        parameters = torch.from_numpy(flat.reshape(num_classes, size + 1))
        weight, bias = parameters[:, :-1], parameters[:, -1]
        log_probabilities = torch.log_softmax(z @ weight.T + bias, dim=1)
        loss = -(one_hot * log_probabilities).sum() + strength / 2 * (weight**2).sum()
        error = log_probabilities.exp() - one_hot
        gradient = torch.column_stack([error.T @ z + strength * weight, error.sum(dim=0)])
        return float(loss), gradient.ravel().numpy()

    start = np.zeros(num_classes * (size + 1))
    options = {"maxiter": MAX_ITERATIONS, "gtol": 1e-4}
    result = minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x
    result = result.reshape(num_classes, size + 1)
    weight = result[:, :-1] / deviation
    return weight, result[:, -1] - weight @ mean


def _embedded(
    encoder: Adapter, view: Data, mask: str
) -> tuple[NDArray[np.float64], NDArray[np.int64], torch.dtype]:
    """Return embeddings float64 [n, size], labels and dtype of masked nodes, or of graphs."""
    bound = encoder.on_view(view)
    embeddings = check_output(
        bound(view.x, view.edge_index),
        name=encoder.name,
        called=encoder.convention,
        rows=bound.rows(view.x.shape[0]),
        columns=None,
        one_for=bound.one_for,
        edge_index=view.edge_index,
        advice=DIVERGED,
    )
    rows = view.get(mask)
    counting = slice(None) if rows is None else rows
    selected, labels = embeddings[counting], view.y[counting]
    return selected.double().cpu().numpy(), labels.cpu().numpy(), embeddings.dtype


def _state(encoder: Adapter) -> dict[str, Tensor]:
    """Return copies of all parameters and buffers, including those outside the state dict."""
    module = encoder.module
    return {
        name: value.detach().clone()
        for name, value in (*module.named_parameters(), *module.named_buffers())
    }


def _check_unchanged(before: dict[str, Tensor], encoder: Adapter) -> None:
    after = _state(encoder)
    for name in {**before, **after}:
        if name not in before or name not in after or not _equal(before[name], after[name]):
            raise ModelError(
                f"model {encoder.name}: calling the encoder changed {name}; a frozen encoder must "
                f"not change, so check that it stays in evaluation mode"
            )


def _equal(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and torch.equal(first, second)
