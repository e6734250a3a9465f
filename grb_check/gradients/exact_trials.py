"""The answers of a model to all flips that can reach a target, and why no other can."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import k_hop_subgraph

from grb_check.attacks.modification.shared.edge_set import edge_set
from grb_check.attacks.modification.shared.whole_trials import MOST_WHOLE, ROUNDING, WholeTrials
from grb_check.attacks.protocol import Basis, ExactTrials, FlipSets
from grb_check.errors import UnknownReachError
from grb_check.gradients.flip_deltas import DeltaTrials
from grb_check.gradients.no_indices import flat
from grb_check.gradients.recorded_layers import agree_with_module
from grb_check.gradients.row_trials import RowTrials
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.adapter import Adapter
from grb_check.victims.probed import user_adapter
from grb_check.victims.receptive_field import is_row_wise

TRIED_ALONE: Final = 64  # flips, for which the rows have to give what the module does
ROUNDING_ON_ROWS: Final = 1e-3  # ten times the error that a trial lets pass


def exact_trials(
    adapter: Adapter,
    trials: DeltaTrials | RowTrials | None,
    basis: Basis,
    x: Tensor,
    edge_index: Tensor,
    targets: Tensor,
    finish: Callable[[Tensor, int], Tensor],
) -> ExactTrials:
    """Return the answers of a model to single flips.

    Args:
        adapter: of the module, in evaluation mode.
        trials: of the rows that change, if the module has such.
        basis: of the rows that its type reaches.
        x: float [N, d].
        edge_index: int64 [2, 2E], both directions of each edge.
        targets: int64 [t], distinct.
        finish: from the module's output for so many rows to logits.

    Raises:
        UnknownReachError: the rows that a flip reaches are not known, and the graph is too large to
            call the module for each pair of nodes. Names what mixes rows, if that is known.
    """
    num_nodes = x.shape[0]

    def whole(edges: Tensor) -> Tensor:
        with isolated_randomness(0):
            return finish(adapter(x, edges), adapter.rows(num_nodes))

    every = torch.ones(num_nodes, dtype=torch.bool, device=x.device)
    plain = WholeTrials(whole, edge_set(Data(x=x, edge_index=edge_index)), targets)
    if num_nodes <= MOST_WHOLE:
        return ExactTrials(plain, every, "proven", ROUNDING)
    if _ignores_edges(adapter, x, edge_index):  # no flip can change anything
        return ExactTrials(plain, ~every, "proven", ROUNDING)
    given = user_adapter(adapter).given_edges
    if given is not None and given.fixed is not None:  # a flip reaches along these, too
        raise UnknownReachError(_unknown_reach(adapter))
    flips = _some_flips(edge_index, num_nodes, targets)
    if trials is None or not agree_with_module(
        trials, adapter, x, edge_index, targets, finish, flips
    ):
        raise UnknownReachError(_unknown_reach(adapter))
    near, _, _, _ = k_hop_subgraph(targets, trials.hops, edge_index, num_nodes=num_nodes)
    is_near = torch.zeros_like(every).index_fill(0, near, True)
    return ExactTrials(trials, is_near, basis, ROUNDING_ON_ROWS)


def _some_flips(edge_index: Tensor, num_nodes: int, targets: Tensor) -> FlipSets:
    """Return single flips as candidates: of all pairs, if there are few, or half of them edges.

    A search that is to prove something tries more of them than one that attacks (`TRIED`): degrees
    of few nodes can hide a layer that treats them in another way.
    """
    if num_nodes * (num_nodes - 1) // 2 <= TRIED_ALONE:
        pairs = torch.combinations(torch.arange(num_nodes, device=edge_index.device)).T
    else:
        generator = torch.Generator().manual_seed(0)
        ends = torch.randint(num_nodes, (2, TRIED_ALONE // 2), generator=generator)
        drawn = torch.randint(targets.numel(), (TRIED_ALONE // 2,), generator=generator)
        ends = ends.to(edge_index.device)
        ends[0] = targets[drawn.to(targets.device)]
        edges = edge_index[:, torch.isin(edge_index[0], targets)]
        most = max(1, edges.shape[1])
        some = torch.randint(most, (min(edges.shape[1], TRIED_ALONE // 2),), generator=generator)
        pairs = torch.cat([ends, edges[:, some.to(edges.device)]], dim=1)
        pairs = torch.unique(pairs[:, pairs[0] != pairs[1]].sort(dim=0).values, dim=1)
    count = pairs.shape[1]
    return FlipSets(pairs, torch.arange(count, device=pairs.device), count)


class _Untouched(TorchFunctionMode):
    """Notes whether anything is asked of a tensor, be it its shape."""

    def __init__(self, tensor: Tensor) -> None:
        super().__init__()
        self.used = False
        self._tensor = tensor

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        self.used |= any(value is self._tensor for value in flat(args, kwargs))
        return func(*args, **kwargs)


def _ignores_edges(adapter: Adapter, x: Tensor, edge_index: Tensor) -> bool:
    """Return whether a module's answer is made without looking at the edges that it is given."""
    if not adapter.convention.roles <= {"x", "edge_index"} or adapter.given_edges is not None:
        return False
    edges = _Untouched(edge_index)

    @contextmanager
    def watched() -> Iterator[None]:
        with adapter.within(), edges:
            yield

    with torch.no_grad(), isolated_randomness(0):
        output = adapter.inside(watched)(x, edge_index)
    with torch.no_grad(), isolated_randomness(0):
        without = adapter(x, edge_index[:, :0])
    return not edges.used and torch.equal(output, without)


def _unknown_reach(adapter: Adapter) -> str:
    mixing = sorted(set(_mixing(adapter.module)))
    what = (
        "its layers are not called one after another with (x, edge_index), or something between "
        "them mixes rows of nodes"
    )
    if user_adapter(adapter).given_edges is not None:
        what = (
            "its edges are as they were given, with self-loops, attributes, types, or in one "
            "direction, along which its layers are not followed"
        )
    elif mixing:
        what = f"its {', '.join(mixing)} may mix rows of all nodes"
    return (
        f"model {adapter.name}: which nodes a changed edge reaches is not known: {what}; on a "
        f"graph of more than {MOST_WHOLE} nodes nothing can be proven then; attack it instead, as "
        f"with --grb-suite=local"
    )


def _mixing(module: nn.Module) -> Iterator[str]:
    """Yield the types of parts without parts that are not known to be row-wise, outside layers."""
    for part in module.children():
        if isinstance(part, MessagePassing):
            continue
        yield from _mixing(part)
        if next(part.children(), None) is None and not is_row_wise(part):
            yield type(part).__name__
