r"""Modules that drop edges at random, or vote, replaced by what they do on average.

Neither has a useful gradient: a mask is constant, and drawn anew for every other graph; a vote is a
step function. Inside `averages`

* a mask made of random numbers keeps every edge. Only random numbers with one value for each row
  are meant, as they are drawn for edges: `rand`, `rand_like` and `uniform_` that are compared with
  something, `bernoulli`, and `dropout`;
* a label :math:`\arg\max_c z_c`, or arg min, stands, where it is made a vector of 0 and 1 or
  chooses a row of a table, for softmax(z / T), T being the median difference between the two
  largest logits (our choice), so that it does not vanish for models that are sure of their answer.

A gradient in edges is taken of that module if the module itself has none, and one in injected
features (`open_gradients.without_steps`); what it finds is judged by the module itself. The
straight-through estimate (`Bengio et al. 2013 <https://arxiv.org/abs/1308.3432>`_, section 4), in
which the numbers that are drawn for the present edges decide, was weaker: flips that suit one draw
do not suit the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from grb_check.user_code.randomness import isolated_randomness

_LEAST: Final = 1e-6  # temperature
_UNIFORM: Final = (torch.rand, torch.rand_like, Tensor.uniform_)
_BERNOULLI: Final = (torch.bernoulli, Tensor.bernoulli, Tensor.bernoulli_)
_DROPOUT: Final = (functional.dropout, torch.dropout)
ASCENDING: Final = (Tensor.ge, Tensor.gt, torch.ge, torch.gt)
DESCENDING: Final = (Tensor.le, Tensor.lt, torch.le, torch.lt)
_COMPARISONS: Final = (*ASCENDING, *DESCENDING)
_OPPOSITES: Final = (
    Tensor.__invert__,
    Tensor.logical_not,
    Tensor.bitwise_not,
    torch.logical_not,
    torch.bitwise_not,
)
_ARGMAX: Final = (torch.argmax, Tensor.argmax)
_ARGMIN: Final = (torch.argmin, Tensor.argmin)
_MAX: Final = (torch.max, Tensor.max)
_MODE: Final = (torch.mode, Tensor.mode)


@contextmanager
def averages() -> Iterator[None]:
    """Replace random masks and votes inside by their averages."""
    with _Averages():
        yield


def have_effect(forward: Callable[[], object]) -> bool:
    """Return whether anything is replaced inside `averages`; one forward pass."""
    mode = _Averages()
    with torch.no_grad(), isolated_randomness(0), mode:
        forward()
    return mode.replaced


def first_argument(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the first argument of a function of torch, which may be given by name."""
    return args[0] if args else kwargs.get("input", kwargs.get("tensors"))


class _Averages(TorchFunctionMode):
    """Returns averages of what functions of torch return.

    Attributes:
        replaced: whether there was one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.replaced = False
        # By id; tensors are kept, so that no other one gets the id of one of them.
        self.random: dict[int, Tensor] = {}
        self.masks: dict[int, Tensor] = {}
        self.votes: dict[int, tuple[Tensor, Tensor]] = {}  # labels and their probabilities

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        first = first_argument(args, kwargs)
        average = self._average(func, first, args)
        if average is not None:
            self.replaced = True
            return average
        output = func(*args, **kwargs)
        if func in _UNIFORM and _one_for_each_row(output):
            self.random[id(output)] = output
        elif func in _BERNOULLI and _one_for_each_row(output):
            output, self.replaced = output.fill_(1), True
        elif func in _COMPARISONS and id(first) in self.random:
            output, self.replaced = torch.ones_like(output), True
            self.masks[id(output)] = output
        else:
            self._record_votes(func, first, args, kwargs, output)
        return output

    def _average(self, func: Any, first: Any, args: Sequence[Any]) -> Any:
        """Return what stands for a call that is not made; None if it is made."""
        if func in _DROPOUT and _one_for_each_row(first):
            return first
        if func in _OPPOSITES and id(first) in self.masks:
            return first
        if func is functional.one_hot and id(first) in self.votes:
            return self.votes[id(first)][1]
        last: Any = args[-1] if args else None
        table = last if func is functional.embedding else first
        chosen = {functional.embedding: first, Tensor.__getitem__: last}.get(func)
        if id(chosen) in self.votes and isinstance(table, Tensor) and table.dim() == 2:
            soft = self.votes[id(chosen)][1]
            return soft @ table.to(soft.dtype) if soft.shape[-1] == table.shape[0] else None
        return None

    def _record_votes(
        self, func: Any, first: Any, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any
    ) -> None:
        """Remember the probabilities, float [..., c], of labels int64 [...] that a call gave."""
        dim = args[1] if len(args) > 1 else kwargs.get("dim")
        if func in _ARGMAX:
            self._add(output, soft_labels(first, dim))
        elif func in _ARGMIN:
            self._add(output, soft_labels(-first, dim))
        elif func in _MAX and isinstance(output, tuple):
            self._add(output[1], soft_labels(first, dim))
        elif func is torch.stack and all(id(tensor) in self.votes for tensor in first):
            if (dim or 0) >= 0:
                parts = [self.votes[id(tensor)][1] for tensor in first]
                self._add(output, torch.stack(parts, dim or 0))
        elif func in _MODE and id(first) in self.votes:
            labels, soft = self.votes[id(first)]
            self._add(output[0], soft.mean((-1 if dim is None else dim) % labels.dim()))

    def _add(self, labels: Tensor, soft: Tensor | None) -> None:
        if soft is not None and soft.shape[:-1] == labels.shape:
            self.votes[id(labels)] = labels, soft


def _one_for_each_row(values: object) -> bool:
    return isinstance(values, Tensor) and values.dim() > 0 and values.numel() == values.shape[0]


def soft_labels(logits: Tensor, dim: object) -> Tensor | None:
    """Return the probabilities of classes along a dimension, classes last."""
    if not isinstance(dim, int) or not logits.is_floating_point() or logits.shape[dim] < 2:
        return None
    classes = logits.movedim(dim, -1)
    first, second = classes.detach().topk(2, dim=-1).values.unbind(-1)
    return (classes / (first - second).median().clamp(min=_LEAST)).softmax(-1)
