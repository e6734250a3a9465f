"""Models that see the features alone, or the number of edges alone."""

from __future__ import annotations

import torch

from grb_check.models.reference.degree import degree
from grb_check.models.reference.logistic_regression import logistic_regression

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def test_logistic_regression_sees_no_edge() -> None:
    model, x = logistic_regression(3, 2), torch.rand(3, 3)
    expected = x @ model.linear.weight.T + model.linear.bias
    torch.testing.assert_close(model(x, PATH), expected)
    torch.testing.assert_close(model(x, PATH[:, :0]), expected)


def test_the_detector_of_degree_sees_the_weights_of_edges_alone() -> None:
    model, weight = degree(3, 2), torch.tensor([1.0, 1.0, 0.5, 0.5], requires_grad=True)
    logits = model(torch.rand(3, 3), PATH, weight)
    degrees = torch.tensor([[1.0], [1.5], [0.5]])
    expected = (1 + degrees).log() @ model.linear.weight.T + model.linear.bias
    torch.testing.assert_close(logits, expected)
    torch.testing.assert_close(model(torch.rand(3, 3), PATH[:, :1])[0, 0], model.linear.bias[0])
    logits[:, 0].sum().backward()
    assert weight.grad is not None
    assert bool(weight.grad.any())
