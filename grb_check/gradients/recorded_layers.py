"""Modules of PyG's layers as propagations with row-wise maps in between.

The normalisations are those of `fitted_normalisations`. The row-wise maps are the module itself,
called with chosen rows and no edges, in which each layer's `propagate` returns what it is told to.
That all else is row by row is not certain of a module, so a trial compares with its own output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from grb_check.attacks.protocol import FlipSets, FlipTrials
from grb_check.errors import ModelError
from grb_check.gradients.fitted_normalisations import fitted_normalisations
from grb_check.gradients.flip_deltas import DeltaTrials, Receive
from grb_check.gradients.layer_calls import keeping_state, layers_of
from grb_check.gradients.normalisation import Normalisation
from grb_check.gradients.propagate_calls import recorded, sent_to
from grb_check.gradients.trial import Answers, agrees, fixed_noise
from grb_check.gradients.weighted_graph import weighted_graph
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.adapter import Adapter

TRIED: Final = (1, 2, 3, 10)  # flips of the candidates in a trial
FITTED: Final = 300  # nodes of the graph on which normalisations are found


class FixedRows(TorchFunctionMode):
    """Chosen rows of fixed features, and what the model's linear maps make of all features.

    Within this context `rows` stands for `x[nodes]`, which is made only if something else than a
    linear map asks for it: features are wide, and an attack on edges does not change them.

    Args:
        x: float [N, d].
        nodes: int64 [r].
        maps: by the identity of a weight, the weight [a, d] and `x @ weight.T` [N, a]; filled here.
    """

    def __init__(self, x: Tensor, nodes: Tensor, maps: dict[int, tuple[Tensor, Tensor]]) -> None:
        super().__init__()
        self.rows = x.new_zeros(1, 1).expand(nodes.numel(), x.shape[1])
        self._x, self._nodes, self._maps = x, nodes, maps
        self._made: Tensor | None = None

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if not args or args[0] is not self.rows:
            return self._called(func, args, kwargs)
        if getattr(func, "__name__", "") == "__get__" or func in (Tensor.size, Tensor.dim):
            return func(*args, **kwargs)
        if func is F.dropout and not _is_training(args, kwargs):
            return self.rows
        if func is F.linear:
            return self._linear(*args[1:], **kwargs)
        return self._called(func, args, kwargs)

    def real(self, rows: Tensor) -> Tensor:
        """Return `x[nodes]` for `rows`, and anything else as it is."""
        if rows is not self.rows:
            return rows
        if self._made is None:
            self._made = self._x.index_select(0, self._nodes)
        return self._made

    def _called(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        return func(
            *(self._given(argument) for argument in args),
            **{name: self._given(value) for name, value in kwargs.items()},
        )

    def _given(self, value: Any) -> Any:
        """Return an argument with the real rows; those of `cat` and `stack` are in a list."""
        if type(value) in (list, tuple):
            return type(value)(map(self._given, value))
        return self.real(value) if value is self.rows else value

    def _linear(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if not isinstance(weight, nn.Parameter):  # computed in each call, and so another each time
            return F.linear(self.real(self.rows), weight, bias)
        if id(weight) not in self._maps:
            self._maps[id(weight)] = weight, F.linear(self._x, weight)
        product = self._maps[id(weight)][1].index_select(0, self._nodes)
        return product if bias is None else product + bias


def _is_training(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    return bool(kwargs["training"] if "training" in kwargs else (*args, 0.5, True)[2])


@dataclass(frozen=True, eq=False)
class RecordedLayers:
    """A module of PyG's layers as `flip_deltas.Layers`.

    Attributes:
        adapter: of the module.
        x: float [N, d].
        norms: of each propagation.
        finish: from the output for so many rows to logits.
        maps: see `FixedRows`.
    """

    adapter: Adapter
    x: Tensor
    norms: Sequence[Normalisation]
    finish: Callable[[Tensor, int], Tensor]
    maps: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)

    @property
    def keeps_rows(self) -> bool:
        return True

    def logits(self, nodes: Tensor, receive: Receive) -> Tensor:
        no_edges = torch.empty((2, 0), dtype=torch.int64, device=nodes.device)
        module = self.adapter.module
        forward = keeping_state(module, self.adapter.with_graph(no_edges, nodes.numel(), {}))
        number = 0
        with FixedRows(self.x, nodes, self.maps) as fixed, ExitStack() as stack:

            def replaced(layer: nn.Module, inputs: tuple[Any, ...], output: object) -> Tensor:
                nonlocal number
                number += 1
                sent = sent_to(inputs[2], output, nodes.numel())
                if sent is None or number > len(self.norms):
                    raise ModelError("a propagation of another form than on the whole graph")
                return receive(number - 1, fixed.real(sent))

            for layer in layers_of(module):
                stack.callback(layer.register_propagate_forward_hook(replaced).remove)
            output = forward(fixed.rows)
        if number != len(self.norms):
            raise ModelError("fewer propagations than on the whole graph")
        return self.finish(output, nodes.numel())


def recorded_trials(
    adapter: Adapter,
    x: Tensor,
    edge_index: Tensor,
    targets: Tensor,
    finish: Callable[[Tensor, int], Tensor],
) -> DeltaTrials | None:
    """Return `FlipTrials` of a module of PyG's layers; None if a trial finds that they are wrong.

    The trial compares the module's output on the graph, and on graphs with some edges removed and
    others added, with what is computed from the changed rows; first on a tree of `FITTED` nodes
    with noise as features, most of which a flip does not reach.

    Args:
        adapter: of the module, in evaluation mode.
        x: float [N, d].
        edge_index: int64 [2, 2E], both directions of each edge.
        targets: int64 [t], distinct.
        finish: see `RecordedLayers`.
    """
    if not layers_of(adapter.module) or not targets.numel() or x.shape[0] < 2:
        return None
    try:
        with torch.no_grad(), isolated_randomness(0):
            noise, tree = fixed_noise((FITTED, x.shape[1]), x), _tree(x.device)
            norms = _normalisations(adapter, noise, tree)
            everywhere = torch.arange(FITTED, device=x.device)
            if not norms or _agreeing(adapter, norms, noise, tree, everywhere, finish) is None:
                return None
            return _agreeing(adapter, norms, x, edge_index, targets, finish)
    except (ModelError, RuntimeError):
        return None


def _tree(device: torch.device) -> Tensor:
    """Return the edges of a tree with several degrees: on a regular graph several norms fit."""
    children = torch.arange(1, FITTED, device=device)
    pairs = torch.stack([children // 3, children])
    return torch.cat([pairs, pairs.flip(0)], dim=1)


def _normalisations(adapter: Adapter, x: Tensor, edge_index: Tensor) -> list[Normalisation]:
    """Return the normalisation of each propagation; none if one of them has none."""
    graph = weighted_graph(edge_index, x.new_ones(edge_index.shape[1]), x.shape[0])
    _, calls = recorded(adapter.module, partial(adapter, x, edge_index), graph)
    if any(call.graph is not graph for call in calls):
        return []
    result = fitted_normalisations(calls)
    return [result[call.layer] for call in calls] if result else []


def _agreeing(
    adapter: Adapter,
    norms: Sequence[Normalisation],
    x: Tensor,
    edge_index: Tensor,
    targets: Tensor,
    finish: Callable[[Tensor, int], Tensor],
) -> DeltaTrials | None:
    """Return the trials of a graph if their logits are those of the module."""
    layers = RecordedLayers(adapter, x, norms, finish)
    trials = DeltaTrials(layers, edge_index, x.shape[0], targets)
    same = agree_with_module(trials, adapter, x, edge_index, targets, finish)
    return trials if same else None


def agree_with_module(
    trials: FlipTrials,
    adapter: Adapter,
    x: Tensor,
    edge_index: Tensor,
    targets: Tensor,
    finish: Callable[[Tensor, int], Tensor],
    flip_sets: FlipSets | None = None,
) -> bool:
    """Return whether the logits are those of the module, on the graph and for some candidates.

    Args:
        trials: of the targets.
        adapter: of the module.
        x: float [N, d].
        edge_index: int64 [2, 2E].
        targets: int64 [t].
        finish: from the module's output for so many rows to logits.
        flip_sets: the candidates; some random ones without.
    """

    def own_logits(edges: Tensor) -> Tensor:
        with torch.no_grad():
            return finish(adapter(x, edges), num_nodes)[targets]

    num_nodes = x.shape[0]
    if flip_sets is None:
        flip_sets = _some_flip_sets(edge_index, num_nodes, targets)
    changed = trials.tried(flip_sets)
    outputs, expected = [trials.logits()], [own_logits(edge_index)]
    for candidate in range(flip_sets.count):
        pairs = flip_sets.pairs[:, flip_sets.owner == candidate]
        expected.append(own_logits(_flipped(edge_index, pairs, num_nodes)))
        of_candidate = changed.owner == candidate
        positions, logits = changed.position[of_candidate], changed.logits[of_candidate]
        outputs.append(trials.logits().index_copy(0, positions, logits))
    return agrees(Answers(tuple(outputs)), Answers(tuple(expected)), expected[0])


def _some_flip_sets(edge_index: Tensor, num_nodes: int, targets: Tensor) -> FlipSets:
    """Return candidates of random flips at targets, half of them removals if there are edges."""
    generator = torch.Generator().manual_seed(0)
    parts = []
    for count in TRIED:
        ends = torch.randint(num_nodes, (2, count), generator=generator).to(targets.device)
        ends[0] = targets[torch.randint(targets.numel(), (count,), generator=generator)]
        drawn = torch.randint(max(1, edge_index.shape[1]), (count // 2,), generator=generator)
        ends = torch.cat([edge_index[:, drawn] if edge_index.numel() else ends[:, :0], ends], dim=1)
        ends = ends[:, ends[0] != ends[1]].sort(dim=0).values
        parts.append(torch.unique(ends, dim=1))
    sizes = torch.tensor([part.shape[1] for part in parts], device=targets.device)
    return FlipSets(torch.cat(parts, dim=1), torch.repeat_interleave(sizes), len(parts))


def _flipped(edge_index: Tensor, pairs: Tensor, num_nodes: int) -> Tensor:
    """Return the edges int64 [2, .] after flipping pairs int64 [2, m]."""
    both = torch.cat([pairs, pairs.flip(0)], dim=1)
    codes = torch.cat([edge_index, both], dim=1)
    remaining, counts = torch.unique(codes[0] * num_nodes + codes[1], return_counts=True)
    remaining = remaining[counts == 1]
    return torch.stack([remaining // num_nodes, remaining % num_nodes])
