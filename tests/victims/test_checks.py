"""An output is a finite float tensor with the right rows and columns, or one sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from grb_check.errors import ModelError
from grb_check.victims.checks import check_output, returns_probabilities

ROWS, COLUMNS = 4, 3


class Subclass(Tensor):
    """A user's own kind of tensor."""


FORMS: Final[Mapping[str, Callable[[Tensor], object]]] = {
    "dense": lambda tensor: tensor,
    "subclass": lambda tensor: tensor.as_subclass(Subclass),
    "parameter": lambda tensor: torch.nn.Parameter(tensor, requires_grad=False),
    "not contiguous": lambda tensor: tensor.T.contiguous().T,
    "expanded": lambda tensor: tensor[:1].expand(tensor.shape),
    "meta": lambda tensor: tensor.to("meta"),
    "coo": Tensor.to_sparse,
    "csr": Tensor.to_sparse_csr,
    "nested": lambda tensor: torch.nested.as_nested_tensor(list(tensor)),
    "numpy": lambda tensor: tensor.float().numpy(),
    "tuple": lambda tensor: (tensor, tensor),
    "list": Tensor.tolist,
    "none": lambda tensor: None,
}
DTYPES: Final = (
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.float8_e4m3fn,
    torch.int8,
    torch.int64,
    torch.bool,
    torch.complex64,
)
ALLOWED: Final = ("dense", "subclass", "parameter", "not contiguous", "expanded")


def check(output: object) -> Tensor:
    return check_output(output, name="m", called="(x, edge_index)", rows=ROWS, columns=COLUMNS)


@pytest.mark.filterwarnings("ignore")  # of torch, about kinds of tensors in beta state
@given(
    form=st.sampled_from(sorted(FORMS)),
    dtype=st.sampled_from(DTYPES),
    shape=st.lists(st.integers(1, 5), min_size=2, max_size=2) | st.just([ROWS, COLUMNS]),
    value=st.sampled_from([0.0, 1.0, float("nan"), float("inf")]),
)
def test_any_output_is_returned_or_refused_in_one_sentence(
    form: str, dtype: torch.dtype, shape: list[int], value: float
) -> None:
    """Nothing else is raised, whatever a forward returns."""
    integer = not (dtype.is_floating_point or dtype.is_complex)
    plain = torch.full(shape, 1.0 if integer else value).to(dtype)
    try:
        output = FORMS[form](plain)
    except (RuntimeError, TypeError):  # torch has no such tensor
        return
    valid = (
        form in ALLOWED and dtype in DTYPES[:4] and shape == [ROWS, COLUMNS] and value in (0.0, 1.0)
    )
    if valid:
        checked = check(output)
        assert type(checked) is Tensor
        assert torch.equal(checked, plain)
        return
    with pytest.raises(ModelError, match=re.escape("model m: called as (x, edge_index) it must")):
        check(output)


def test_a_subclass_keeps_its_gradient() -> None:
    """It is only seen as a plain tensor."""
    x = torch.zeros(ROWS, COLUMNS, requires_grad=True)
    check((2 * x).as_subclass(Subclass)).sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, torch.full((ROWS, COLUMNS), 2.0))


@given(
    logits=st.lists(
        st.lists(st.floats(-30, 30, width=32), min_size=COLUMNS, max_size=COLUMNS), min_size=1
    )
)
def test_a_softmax_is_seen_and_its_logits_are_not(logits: list[list[float]]) -> None:
    """Rows of a softmax sum to one; rows of a log-softmax are negative."""
    plain = torch.tensor(logits)
    assert returns_probabilities(plain.softmax(dim=1))
    assert not returns_probabilities(plain.log_softmax(dim=1))
    assert not returns_probabilities(plain.softmax(dim=1) - 0.1)
