"""The linear probe: a logistic regression on the embeddings of a frozen encoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax
from torch import Tensor, nn

from grb_check.conventions import Adapter
from grb_check.datasets.dataset import Dataset, training_view
from grb_check.errors import ModelError
from grb_check.model_checks import check_output

STRENGTH: Final = 1.0  # of the L2 penalty beside the summed loss, on standardised embeddings
MAX_ITERATIONS: Final = 1000


class Probed(nn.Module):
    """An encoder and the linear layer fitted to its embeddings: logits from features and edges.

    Args:
        encoder: gives embeddings float [num_nodes, size].
        weight: float [num_classes, size].
        bias: float [num_classes].
    """

    def __init__(self, encoder: Adapter, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.encoder = encoder.module
        self.linear = nn.Linear(weight.shape[1], weight.shape[0])
        self.linear.weight = nn.Parameter(weight)
        self.linear.bias = nn.Parameter(bias)
        self._encode = encoder

    @property
    def adapter(self) -> Adapter:
        """The encoder, whose output `linear` is applied to."""
        return self._encode

    @property
    def supports_edge_weight(self) -> bool:
        return self._encode.convention.takes_edge_weight

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits float [num_nodes, num_classes]."""
        logits: Tensor = self.linear(self._encode(x, edge_index, edge_weight))
        return logits

    def on_topology(self, edge_index: Tensor, num_nodes: int) -> Callable[[Tensor], Tensor]:
        """The map from features to logits with the graph fixed."""
        embed = self._encode.on_topology(edge_index, num_nodes)
        return lambda x: self.linear(embed(x))


def probe(encoder: Adapter, dataset: Dataset, *, device: torch.device) -> Probed:
    """Fit a linear probe on the training nodes' embeddings; the encoder stays as it is.

    Raises:
        ModelError: the encoder raises, answers nonsense, or changes when it is called.
    """
    view = training_view(dataset).to(device)
    encoder.module.eval()
    before = {name: value.clone() for name, value in encoder.module.state_dict().items()}
    with torch.no_grad():
        embeddings = check_output(
            encoder(view.x, view.edge_index),
            name=encoder.name,
            called=encoder.convention,
            rows=view.x.shape[0],
            columns=None,
        )
    _check_unchanged(before, encoder)
    weight, bias = fit_logistic_regression(
        embeddings.double().cpu().numpy(), view.y.cpu().numpy(), dataset.num_classes
    )
    return Probed(
        encoder,
        torch.from_numpy(weight).to(device, embeddings.dtype),
        torch.from_numpy(bias).to(device, embeddings.dtype),
    )


def fit_logistic_regression(
    embeddings: NDArray[np.float64], labels: NDArray[np.int64], num_classes: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weight [num_classes, size] and bias [num_classes] of the multinomial logistic regression

        min  sum_i -log softmax(W z_i + b)[y_i] + STRENGTH / 2 * |W|^2

    on standardised embeddings z, folded back so that they apply to the embeddings themselves.
    Deterministic: full batch, from zero, in float64.
    """
    mean, deviation = embeddings.mean(axis=0), embeddings.std(axis=0)
    deviation[deviation < 1e-12] = 1.0  # a constant column carries nothing
    z = (embeddings - mean) / deviation
    size = z.shape[1]
    wanted = np.eye(num_classes)[labels]  # [n, num_classes]

    def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        parameters = flat.reshape(num_classes, size + 1)
        weight, bias = parameters[:, :-1], parameters[:, -1]
        log_probabilities = log_softmax(z @ weight.T + bias, axis=1)
        loss = -(wanted * log_probabilities).sum() + STRENGTH / 2 * (weight**2).sum()
        error = np.exp(log_probabilities) - wanted
        gradient = np.column_stack([error.T @ z + STRENGTH * weight, error.sum(axis=0)])
        return float(loss), gradient.ravel()

    start = np.zeros(num_classes * (size + 1))
    options = {"maxiter": MAX_ITERATIONS, "gtol": 1e-4}
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x
    found = found.reshape(num_classes, size + 1)
    weight = found[:, :-1] / deviation
    return weight, found[:, -1] - weight @ mean


def _check_unchanged(before: dict[str, Tensor], encoder: Adapter) -> None:
    after = encoder.module.state_dict()
    for name, value in before.items():
        if not torch.equal(value, after[name]):
            raise ModelError(
                f"model {encoder.name}: calling the encoder changed {name}; a frozen encoder must "
                f"answer without changing, so see that it stays in evaluation mode"
            )
