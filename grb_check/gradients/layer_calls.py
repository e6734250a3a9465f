"""Calls of layers, or of another part, inside a module: recorded once, and replaced later."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.sparse import check_sparse_tensor_invariants
from torch_geometric.nn import MessagePassing

from grb_check.errors import ModelError
from grb_check.gradients.no_indices import NoIndices, OtherCallError

OnRows = Callable[[Tensor], Tensor]  # features of some rows, float [k, a] -> [m, b] of others


@dataclass(frozen=True, eq=False)
class LayerCall:
    """One call of a layer, on all N nodes of a graph.

    Attributes:
        layer: of PyG, or another part of a module, in evaluation mode.
        x: float [N, a], the features that it was called with, its first argument.
        edge_index: int64 [2, e].
        others: its other arguments, by name.
        argument: name of the first argument.
    """

    layer: nn.Module
    x: Tensor
    edge_index: Tensor
    others: Mapping[str, object]
    argument: str = "x"

    @property
    def edge_weight(self) -> Tensor | None:
        """The argument of that name."""
        return cast("Tensor | None", self.others.get("edge_weight"))

    def repeated(self, x: Tensor) -> Tensor:
        """Return what the layer makes of other features float [N, b]."""
        given = {self.argument: x, "edge_index": self.edge_index, **self.others}
        return cast(Tensor, self.layer(**given))


def layers_of(module: nn.Module) -> list[MessagePassing]:
    """Return the PyG layers of a module."""
    return [part for part in module.modules() if isinstance(part, MessagePassing)]


def recorded_calls(
    module: nn.Module, forward: Callable[[], Tensor], num_nodes: int
) -> tuple[Tensor, Sequence[LayerCall]]:
    """Return the output of a module and the calls of its layers.

    There are no calls if one is not understood, if a layer propagates more or less than once, or if
    it is called on other nodes than the graph's, as after pooling.
    """
    output, calls, versions = _recorded(module, forward, lambda x: x)
    if any(call.x.shape[0] != num_nodes for call in calls):
        return output, []
    if [call.x._version for call in calls] != versions:  # the module changes them in place
        output, calls, _ = _recorded(module, forward, torch.clone)
    return output, calls


def _recorded(
    module: nn.Module, forward: Callable[[], Tensor], on_rows: OnRows
) -> tuple[Tensor, Sequence[LayerCall], list[int]]:
    """Return output, calls with the features `on_rows`, and the versions of these when called."""
    calls: list[LayerCall | None] = []
    versions: list[int] = []
    propagated: list[int] = []
    inside: list[nn.Module] = []  # a layer may consist of layers

    def recorder(layer: MessagePassing) -> Callable[..., Any]:
        original = layer.forward

        def recording(*args: object, **kwargs: object) -> object:
            if not inside:
                call = _call(layer, *args, **kwargs)
                calls.append(call and replace(call, x=on_rows(call.x)))
                versions.append(-1 if call is None else call.x._version)
            inside.append(layer)
            try:
                return original(*args, **kwargs)
            finally:
                inside.pop()

        return recording

    with ExitStack() as stack:
        for layer in layers_of(module):
            hook = layer.register_propagate_forward_pre_hook(lambda *given: propagated.append(0))
            stack.callback(hook.remove)
        recorders = {layer: recorder(layer) for layer in layers_of(module)}
        stack.enter_context(replaced_forwards(recorders))
        output = forward()
    known = [call for call in calls if call is not None]
    understood = len(known) == len(calls) == len(propagated)
    return output, known if understood else [], versions if understood else []


@dataclass(frozen=True, eq=False)
class PartCall:
    """The only call of a part of a module.

    Attributes:
        call: of the part.
        output: float [N, b] of the part.
        clean: float [M, c], the output of the whole module.
    """

    call: LayerCall
    output: Tensor
    clean: Tensor


def recorded_call(part: nn.Module, forward: Callable[[], Tensor]) -> PartCall | None:
    """Return the call of a part of a module.

    None if it is not called once, with features and edges, or does not return a tensor.
    """
    calls: list[LayerCall | None] = []
    outputs: list[object] = []
    original = part.forward

    def recording(*args: object, **kwargs: object) -> object:
        call = _call(part, *args, **kwargs)
        calls.append(call and replace(call, x=call.x.clone()))
        outputs.append(original(*args, **kwargs))
        return outputs[-1]

    with replaced_forwards({part: recording}):
        clean = forward()
    if len(calls) != 1 or calls[0] is None or not isinstance(outputs[0], Tensor):
        return None
    return PartCall(calls[0], outputs[0], clean)


@dataclass(eq=False)
class Replay:
    """Calls a module whose layers are replaced.

    Attributes:
        forward: calls the module.
        trusted: whether a trial has passed. Until then no node ids may be used outside the layers
            in a way that could read beyond fewer rows; on a GPU, never.
    """

    forward: OnRows
    trusted: bool = False

    def __call__(
        self, calls: Sequence[LayerCall], parts: Sequence[OnRows], features: Tensor
    ) -> Tensor:
        """Return the output of the module.

        Args:
            calls: of its layers, as recorded.
            parts: called in place of the layers, in the same order.
            features: of the rows that the first part takes.

        Raises:
            OtherCallError: a layer is called in another way than it was, ids are used, or the
                module fails, as it may on fewer rows only.
        """
        remaining = iter(zip(calls, parts, strict=True))
        on_cpu = features.device.type == "cpu"
        outside = NoIndices(checked=on_cpu)

        def replacement(layer: nn.Module) -> Callable[..., Tensor]:
            def replaced(*args: object, **kwargs: object) -> Tensor:
                with outside.lifted():
                    call, part = next(remaining, (None, None))
                    given = _call(layer, *args, **kwargs)
                    if call is None or part is None or given is None or not _alike(call, given):
                        raise OtherCallError(f"{type(layer).__name__} is called in another way")
                    return part(given.x)

            return replaced

        with ExitStack() as stack:
            layers = {call.layer for call in calls}
            stack.enter_context(replaced_forwards({layer: replacement(layer) for layer in layers}))
            if not (self.trusted and on_cpu):
                stack.enter_context(outside)
            # Places outside a sparse matrix are refused where it is made, after a trial, too.
            stack.enter_context(check_sparse_tensor_invariants())  # type: ignore[no-untyped-call]
            try:
                return self.forward(features)
            except OtherCallError:
                raise
            except ModelError as error:
                raise OtherCallError(f"on fewer rows {error}") from error


def keeping_state(module: nn.Module, forward: OnRows) -> OnRows:
    """Return a call of a module that leaves its attributes and buffers as they are.

    A module may keep what it made of its last call, which is not on all nodes here. The state of
    scripted parts cannot be put back, and stays as the call leaves it.
    """
    parts = [part for part in module.modules() if not isinstance(part, torch.jit.ScriptModule)]

    def called(features: Tensor) -> Tensor:
        before = [(part, dict(vars(part)), dict(part._buffers)) for part in parts]
        try:
            return forward(features)
        finally:
            for part, attributes, buffers in before:
                vars(part).clear()
                vars(part).update(attributes)
                part._buffers.clear()
                part._buffers.update(buffers)

    return called


def _call(layer: nn.Module, *args: object, **kwargs: object) -> LayerCall | None:
    """Return the call of a layer with these arguments, or None if it is of another kind."""
    try:
        given = inspect.signature(type(layer).forward).bind(layer, *args, **kwargs).arguments
    except TypeError:
        return None
    names = list(given)
    argument = names[1] if len(names) > 1 else ""
    others = {name: given[name] for name in names[2:] if name != "edge_index"}
    x, edge_index = given.get(argument), given.get("edge_index")
    if not isinstance(x, Tensor) or not isinstance(edge_index, Tensor):
        return None
    if x.dim() != 2 or edge_index.layout is not torch.strided or edge_index.dim() != 2:
        return None
    return LayerCall(layer, x, edge_index, others, argument)


@contextmanager
def replaced_forwards(replaced: Mapping[Any, Callable[..., Any]]) -> Iterator[None]:
    """Call these functions instead of the layers' `forward` inside."""
    with ExitStack() as stack:
        for layer, forward in replaced.items():
            original = vars(layer).get("forward")
            layer.forward = forward
            stack.callback(_restore, layer, original)
        yield


def _restore(layer: nn.Module, original: Callable[..., Any] | None) -> None:
    del layer.forward
    if original is not None:
        layer.forward = original


def _alike(call: LayerCall, other: LayerCall) -> bool:
    """Return whether two calls differ in features at most."""
    return (
        call.layer is other.layer
        and _same(call.edge_index, other.edge_index)
        and call.others.keys() == other.others.keys()
        and all(_same(value, other.others[name]) for name, value in call.others.items())
    )


def _same(first: object, second: object) -> bool:
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return first is second or (not second.requires_grad and torch.equal(first, second))
    return first is second or bool(first == second)
