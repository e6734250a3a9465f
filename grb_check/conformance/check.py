"""Checks properties of a trained model, and finds the smallest graph on which one fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from hypothesis import HealthCheck, Phase, Verbosity, errors, given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from grb_check.conformance import calls, shapes, structure, timing, variants
from grb_check.conformance.model import (
    BrokenPropertyError,
    CheckedModel,
    Draw,
    NotApplicableError,
    check_same,
)
from grb_check.conformance.properties import PropertyResult
from grb_check.conformance.results import as_found
from grb_check.strategies import graphs

EXAMPLES: Final = 40  # graphs for each property
# Not `explain`, whose comments nobody sees and which takes longer than all others.
PHASES: Final = (Phase.reuse, Phase.generate, Phase.target, Phase.shrink)
COMPILED: Final = 10  # for torch.compile, which is slow for graphs of new sizes

OnGraph: TypeAlias = Callable[[CheckedModel, Data, Draw], str | None]
Once: TypeAlias = Callable[[CheckedModel], str | None]
Variant: TypeAlias = Callable[[CheckedModel], CheckedModel]

ON_GRAPHS: Final[Mapping[str, OnGraph]] = MappingProxyType(
    {
        "permutation-equivariance": structure.permutation_equivariance,
        "edge-order": structure.edge_order,
        "no-state": calls.no_state,
        "determinism": calls.determinism,
        "input-unchanged": calls.input_unchanged,
        "feature-gradients": calls.feature_gradients,
        "any-size": shapes.any_size,
        "single-node": shapes.single_node,
        "no-edges": shapes.no_edges,
        "isolated-nodes": shapes.isolated_nodes,
        "hubs": shapes.hubs,
        "self-loops": shapes.self_loops,
        "duplicate-edges": structure.duplicate_edges,
        "separate-parts": structure.separate_parts,
        "locality": structure.locality,
        "batch-independence": structure.batch_independence,
        "memory-layout": calls.memory_layout,
        "int32-edges": calls.int32_edges,
        "unit-weights": calls.unit_weights,
    }
)
VARIANTS: Final[Mapping[str, tuple[str, Variant]]] = MappingProxyType(
    {
        "training-mode": ("in training mode, without dropout", variants.in_training_mode),
        "double-precision": ("in float64", variants.double_precision),
        "state-dict": ("with the state dict loaded into a new module", variants.reloaded),
        "torch-compile": ("with torch.compile", variants.compiled),
        "devices": ("on the CPU", variants.on_cpu),
    }
)
ONCE: Final[Mapping[str, Once]] = MappingProxyType(
    {"label-leakage": variants.label_leakage, "scale": timing.scale}
)


def check_property(model: CheckedModel, name: str) -> PropertyResult:
    """Return whether a trained model has a property.

    Args:
        model: trained.
        name: of `cases.properties.PROPERTIES`.
    """
    notes: list[str] = []
    try:
        if name in ONCE:
            notes.append(ONCE[name](model) or "")
        else:
            check = ON_GRAPHS[name] if name in ON_GRAPHS else _as_variant(model, *VARIANTS[name])
            _on_drawn_graphs(model, name, check, notes)
    except NotApplicableError as error:
        return PropertyResult(name=name, result="skip", message=str(error))
    except BrokenPropertyError as error:
        return as_found(name, error)
    except errors.Flaky as error:
        return as_found(name, _first_broken(error))
    except (errors.Unsatisfiable, errors.FailedHealthCheck):
        return PropertyResult(
            name=name, result="skip", message="the graphs that it needs have no finite logits"
        )
    return PropertyResult(name=name, result="pass", message=next(filter(None, notes), ""))


def _as_variant(model: CheckedModel, what: str, make: Variant) -> OnGraph:
    variant = make(model)

    def check(model: CheckedModel, graph: Data, draw: Draw) -> None:
        expected = model.expected(graph)
        check_same(variant.answer(graph), expected, graph, what)

    return check


def _on_drawn_graphs(model: CheckedModel, name: str, check: OnGraph, notes: list[str]) -> None:
    """Run a check on graphs that hypothesis draws, which raises for the smallest that fails."""
    drawn_graphs = graphs(features=model.num_features)

    def law(drawn: st.DataObject) -> None:
        graph = drawn.draw(drawn_graphs)
        notes.append(check(model.fresh(), graph, drawn.draw) or "")

    # The database tells tests apart by their names, too.
    law.__name__ = re.sub(r"\W", "_", f"{model.subject.name} {name}")
    settings(
        max_examples=COMPILED if name == "torch-compile" else EXAMPLES,
        phases=PHASES,
        deadline=None,
        report_multiple_bugs=False,
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )(given(drawn=st.data())(law))()


def _first_broken(error: errors.Flaky) -> BrokenPropertyError:
    """The fault on a graph on which a property fails, and then not."""
    parts = getattr(error, "exceptions", ())
    result = [part for part in parts if isinstance(part, BrokenPropertyError)]
    why = str(result[0]) if result else str(error)
    graph = result[0].graph if result else None
    return BrokenPropertyError(f"{why} (it fails on this graph, and then not)", graph)
