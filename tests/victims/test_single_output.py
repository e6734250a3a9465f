"""Two classes and one output for each row."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from grb_check.victims.single_output import kind_of_single, two_columns

LOGITS = st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=9)


@given(LOGITS)
def test_a_logit_gives_the_classes_and_the_loss_of_its_sigmoid(values: list[float]) -> None:
    """Class 1 from 0.5 on, and binary cross-entropy."""
    logits = torch.tensor(values)
    both = two_columns(logits[:, None], "logit")
    assert torch.allclose(both.softmax(1)[:, 1], logits.sigmoid(), atol=1e-6)
    truth = torch.arange(len(values)) % 2
    binary = F.binary_cross_entropy_with_logits(logits, truth.float())
    assert torch.allclose(F.cross_entropy(both, truth), binary, atol=1e-5)


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=9))
def test_a_probability_is_that_of_class_1(values: list[float]) -> None:
    """The other class has the rest."""
    probabilities = torch.tensor(values)
    assert kind_of_single(probabilities, len(values)) == "probability"
    both = two_columns(probabilities, "probability")
    assert torch.equal(both[:, 1], probabilities)
    assert torch.allclose(both.sum(1), torch.ones(len(values)))


@pytest.mark.parametrize(
    "output",
    [torch.zeros(3, 2), torch.zeros(4, 1), torch.zeros(3, dtype=torch.int64), (torch.zeros(3),)],
    ids=["two columns", "other rows", "classes", "a tuple"],
)
def test_any_other_output_is_no_single_one(output: object) -> None:
    """Such as predicted classes, which have no margins."""
    assert kind_of_single(output, 3) is None


def test_one_negative_number_makes_logits() -> None:
    """Flat or as a column."""
    flat: Tensor = torch.tensor([0.2, -0.1, 0.9])
    assert kind_of_single(flat, 3) == "logit"
    assert kind_of_single(flat[:, None], 3) == "logit"
