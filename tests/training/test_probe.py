"""The linear probe is optimal and deterministic, and leaves the encoder unchanged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import log_softmax
from small_graphs import community_dataset
from torch import Tensor, nn

from grb_check.datasets.recall import Recall, average_precision
from grb_check.errors import ModelError
from grb_check.training.probe import STRENGTHS, chosen_probe, fit_logistic_regression, probe
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import PLAIN

DATASET = community_dataset()
CPU = torch.device("cpu")


def _sample(seed: int, size: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, 40)
    scales = 10.0 ** rng.integers(-2, 3, size)
    return (rng.normal(size=(40, size)) + labels[:, None]) * scales + 5, labels


def _loss(
    z: NDArray[np.float64], y: NDArray[np.int64], w: NDArray[np.float64], b: NDArray[np.float64]
) -> float:
    fit = -log_softmax(z @ w.T + b, axis=1)[np.arange(len(y)), y].sum()
    return float(fit + 1.0 / 2 * (w**2).sum())


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 999), size=st.integers(1, 4))
def test_no_step_makes_the_objective_smaller(seed: int, size: int) -> None:
    """The objective is convex, so a point that no small step improves is optimal."""
    x, y = _sample(seed, size)
    weight, bias = fit_logistic_regression(x, y, 3, 1.0)
    mean, deviation = x.mean(axis=0), x.std(axis=0)
    z, w = (x - mean) / deviation, weight * deviation
    b = bias + weight @ mean
    best = _loss(z, y, w, b)
    rng = np.random.default_rng(seed)
    for length in (0.3, 0.03):
        step_w, step_b = rng.normal(size=w.shape), rng.normal(size=b.shape)
        assert _loss(z, y, w + length * step_w, b + length * step_b) > best


def test_constant_columns_and_absent_classes_are_no_trouble() -> None:
    """A constant column gets no weight, and a class never seen is never predicted."""
    x, y = _sample(0, 2)
    x = np.column_stack([x, np.full(40, 7.0)])
    weight, bias = fit_logistic_regression(x, y, 5, 1.0)
    assert np.isfinite(weight).all()
    assert np.abs(weight[:, 2]).max() < 1e-9
    assert (x @ weight.T + bias).argmax(axis=1).max() < 3


class Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.norm(self.linear(x))


def test_the_encoder_is_unchanged_and_the_probe_repeats() -> None:
    """Parameters and buffers are not changed, and a second probe is the same."""
    module = Linear()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    first, second = (probe(Adapter(module, "m", PLAIN), DATASET, device=CPU) for _ in range(2))
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])
    assert torch.equal(first.linear.weight, second.linear.weight)
    assert torch.equal(first.linear.bias, second.linear.bias)


def test_the_probe_separates_what_can_be_separated() -> None:
    """Embeddings that are the classes give training accuracy 1."""

    class Oracle(nn.Module):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return torch.eye(3)[DATASET.graph.y[DATASET.train]]

    alone = replace(DATASET, val=DATASET.val[:0])
    probed = probe(Adapter(Oracle(), "m", PLAIN), alone, device=CPU)
    logits = probed(DATASET.graph.x[DATASET.train], DATASET.graph.edge_index)
    assert torch.equal(logits.argmax(dim=1), DATASET.graph.y[DATASET.train])


def test_an_encoder_that_changes_when_called_is_an_error() -> None:
    """An encoder that updates batch statistics is not frozen."""

    class Restless(Linear):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            self.norm.train()
            return super().forward(x, edge_index)

    with pytest.raises(ModelError, match=r"calling the encoder changed norm\.running_mean"):
        probe(Adapter(Restless(), "m", PLAIN), DATASET, device=CPU)


class Remembering(nn.Module):
    """An encoder that counts its calls in a buffer outside the state dict."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1), persistent=False)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.calls += 1
        return x


def test_a_buffer_outside_of_the_state_dict_must_not_change_either() -> None:
    """The check includes buffers outside the state dict."""
    with pytest.raises(ModelError, match="calling the encoder changed calls"):
        probe(Adapter(Remembering(), "m", PLAIN), DATASET, device=CPU)


def _score(logits: NDArray[np.float64], y: NDArray[np.int64], recall: Recall | None) -> float:
    if recall is None:
        return float((logits.argmax(axis=1) == y).mean())
    scores, positive = recall.scores(torch.from_numpy(logits)).numpy(), y == recall.positive
    return average_precision(scores[positive], scores[~positive])


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 999), recall=st.sampled_from([None, Recall(1, 0.1)]))
def test_no_other_strength_is_better_on_what_was_held_out(seed: int, recall: Recall | None) -> None:
    """The penalty has the highest held-out accuracy, or average precision where figures are
    recalls, ties broken by the strongest."""
    x, y = _sample(seed, 6)
    fitted, held_out = (x[:12], y[:12]), (x[12:], y[12:])
    weight, bias = chosen_probe(fitted, held_out, 3, recall)
    fits = {strength: fit_logistic_regression(*fitted, 3, strength) for strength in STRENGTHS}
    reached = {
        strength: _score(x[12:] @ w.T + b, y[12:], recall) for strength, (w, b) in fits.items()
    }
    strongest = max(
        strength for strength in STRENGTHS if reached[strength] == max(reached.values())
    )
    np.testing.assert_array_equal(weight, fits[strongest][0])
    np.testing.assert_array_equal(bias, fits[strongest][1])


def test_without_validation_nodes_the_strength_is_one() -> None:
    """There is no data to choose it by."""
    x, y = _sample(3, 2)
    weight, _ = chosen_probe((x, y), (x[:0], y[:0]), 3)
    np.testing.assert_array_equal(weight, fit_logistic_regression(x, y, 3, 1.0)[0])
