r"""Random numbers of edges, and votes, in modules whose edges have weights.

A module that drops edges at random draws a number for each edge. So that weights of 0 and 1 are the
graph of the edges of weight 1, these edges get the numbers that the module would draw for them
alone, in their order; all others get numbers from a copy of the generator. A dropped edge becomes
one of weight 0, whose gradient is that of an edge that is not dropped: the gradient of a vote over
many copies is that of an edge which is there in each.

A vote has no gradient. Here a label :math:`\arg\max_c z_c` stands for its probabilities where it is
made a vector of 0 and 1: the value is that vector, the gradient that of softmax(z / T), T being the
median difference between the two largest logits (our choice), so that it does not vanish for models
that are sure of their answer.

Both are straight-through estimates, see `Estimating or Propagating Gradients Through Stochastic
Neurons <https://arxiv.org/abs/1308.3432>`_ (Bengio et al. 2013, section 4).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_LEAST: Final = 1e-6  # temperature
_OF_SIZE: Final = (torch.rand, torch.randn)
_OF_TENSOR: Final = (
    torch.rand_like,
    torch.randn_like,
    torch.bernoulli,
    Tensor.bernoulli,
    functional.dropout,
    torch.dropout,
)
_COMPARISONS: Final = (
    Tensor.ge,
    Tensor.gt,
    Tensor.le,
    Tensor.lt,
    torch.ge,
    torch.gt,
    torch.le,
    torch.lt,
    Tensor.bool,
)
_IN_PLACE: Final = (Tensor.bernoulli_, Tensor.uniform_, Tensor.normal_)
# The name of the first argument of functions that users may call without a positional one.
_FIRST: Final[Mapping[Any, str]] = {
    **dict.fromkeys(_OF_SIZE, "size"),
    **dict.fromkeys((*_OF_TENSOR, *_COMPARISONS), "input"),
    **dict.fromkeys((torch.argmax, torch.max, torch.mode, torch.bincount), "input"),
    torch.stack: "tensors",
    functional.one_hot: "input",
}


def first_by_position(
    func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a function known here, the first one by position."""
    others = dict(kwargs)
    name = _FIRST.get(func)
    if not args and name in others:
        args = (others.pop(name),)
    return args, others


class Draws:
    """Random numbers of the edges of a graph that have weights.

    Args:
        weights: float [e].
    """

    def __init__(self, weights: Tensor) -> None:
        self._present = weights.detach() > 0.5
        self._drawn: list[Tensor] = []
        self._masks: dict[int, tuple[Tensor, int]] = {}  # by id, with the version

    def changes(self, func: Any, args: Sequence[Any]) -> bool:
        """Return whether a call draws one row of random numbers for each edge."""
        if func in _OF_SIZE:
            size = args[0] if args and isinstance(args[0], (tuple, list)) else args
            return bool(size) and size[0] == self._present.numel()
        if func in _OF_TENSOR or func in _IN_PLACE:
            values: Tensor = args[0]
            return values.dim() > 0 and values.shape[0] == self._present.numel()
        return False

    def __call__(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
        """Return the random numbers: those of present edges first, in their order."""
        present = self._present
        first = self._part(func, args, kwargs, present)
        with _untouched(kwargs.get("generator"), first.device):
            second = self._part(func, args, kwargs, ~present)
        output = first.new_empty((present.numel(), *first.shape[1:]))
        output = output.index_put((present,), first).index_put((~present,), second)
        if func in _IN_PLACE:
            output = cast(Tensor, args[0]).copy_(output)
        self._drawn.append(output)
        return output

    def record(self, func: Any, args: Sequence[Any], output: Any) -> None:
        """Remember a mask bool [e] that a call made of random numbers."""
        known = func in _COMPARISONS and any(each is args[0] for each in self._drawn)
        if known and output.shape == self._present.shape:
            self._masks[id(output)] = output, output._version

    def drops(self, places: Any) -> bool:
        """Return whether an index chooses a random part of the edges."""
        mask = places[-1] if isinstance(places, tuple) and places else places
        known = self._masks.get(id(mask))
        return known is not None and known[0]._version == known[1]

    def _part(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], chosen: Tensor
    ) -> Tensor:
        drawn: Tensor
        if func in _OF_SIZE:
            size = args[0] if isinstance(args[0], (tuple, list)) else args
            drawn = func((int(chosen.sum()), *size[1:]), **kwargs)
        else:
            drawn = func(args[0][chosen], *args[1:], **kwargs)
        return drawn


class Votes:
    """Labels that a module makes of its logits, with the probabilities that they stand for."""

    def __init__(self) -> None:
        # Labels are kept, so that no other tensor gets their id.
        self._found: dict[int, tuple[Tensor, Tensor]] = {}

    def record(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any
    ) -> None:
        """Remember the probabilities, float [..., c], of labels int64 [...] that a call gave."""
        if func in (torch.argmax, Tensor.argmax):
            self._add(output, _softmax(args, kwargs))
        elif func in (torch.max, Tensor.max) and isinstance(output, tuple):
            self._add(output[1], _softmax(args, kwargs))
        elif func is torch.stack and all(id(each) in self._found for each in args[0]):
            dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
            if dim >= 0:
                self._add(output, torch.stack([self._found[id(each)][1] for each in args[0]], dim))
        elif func in (torch.mode, Tensor.mode) and id(args[0]) in self._found:
            dim = args[1] if len(args) > 1 else kwargs.get("dim", -1)
            self._add(output[0], self._vectors(args[0]).mean(dim % args[0].dim()))

    def changes(self, func: Any, args: Sequence[Any]) -> bool:
        """Return whether a call makes vectors of recorded labels."""
        return func is functional.one_hot and id(args[0]) in self._found

    def __call__(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
        """Return vectors of 0 and 1, float [..., c], with the gradient of the probabilities."""
        soft = self._found[id(args[0])][1]
        hard: Tensor = func(*args, **kwargs)
        return hard if hard.shape != soft.shape else _with_gradient(hard, soft)

    def _vectors(self, labels: Tensor) -> Tensor:
        soft = self._found[id(labels)][1]
        return _with_gradient(functional.one_hot(labels, soft.shape[-1]), soft)

    def _add(self, labels: Tensor, soft: Tensor | None) -> None:
        if soft is not None and soft.shape[:-1] == labels.shape:
            self._found[id(labels)] = labels, soft


@contextmanager
def votes_with_gradients() -> Iterator[None]:
    """Give votes a gradient inside."""
    with _WithGradients():
        yield


class _WithGradients(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.votes = Votes()

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        args, kwargs = first_by_position(func, args, kwargs or {})
        if self.votes.changes(func, args):
            return self.votes(func, args, kwargs)
        output = func(*args, **kwargs)
        self.votes.record(func, args, kwargs, output)
        return output


def _softmax(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor | None:
    """Return the probabilities of logits that are the first argument, classes last."""
    dim = args[1] if len(args) > 1 else kwargs.get("dim")
    logits: Tensor = args[0]
    if not isinstance(dim, int) or not logits.requires_grad or logits.shape[dim] < 2:
        return None
    classes = logits.movedim(dim, -1)
    first, second = classes.detach().topk(2, dim=-1).values.unbind(-1)
    return (classes / (first - second).median().clamp(min=_LEAST)).softmax(-1)


def _with_gradient(hard: Tensor, soft: Tensor) -> Tensor:
    return hard.to(soft.dtype) + soft - soft.detach()


@contextmanager
def _untouched(generator: torch.Generator | None, device: torch.device) -> Iterator[None]:
    """Restore the generator that functions draw from on a device after a block."""
    if generator is None:
        if device.type == "cuda":
            generator = torch.cuda.default_generators[device.index or 0]
        else:
            generator = torch.default_generator
    state = generator.get_state()
    try:
        yield
    finally:
        generator.set_state(state)
