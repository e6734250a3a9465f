"""Properties of sound models of graphs, by name. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal


@dataclass(frozen=True)
class Property:
    """A property that a sound model has.

    Attributes:
        name: in ids, and of its page in the documentation.
        says: in one line.
        of_nodes: whether models that classify nodes can have it.
        of_graphs: whether models that classify graphs can.
    """

    name: str
    says: str
    of_nodes: bool = True
    of_graphs: bool = True


_ALL: Final = (
    Property("permutation-equivariance", "other numbers of nodes only permute the rows of logits"),
    Property("edge-order", "the order in which edges are listed does not matter"),
    Property("no-state", "an answer does not depend on earlier calls"),
    Property("determinism", "global random states do not matter in evaluation mode"),
    Property("input-unchanged", "a call changes none of its arguments"),
    Property("feature-gradients", "the gradient in the features exists and is finite"),
    Property("any-size", "graphs of every size have finite logits"),
    Property("single-node", "a graph of one node has finite logits"),
    Property("no-edges", "a graph without edges has finite logits"),
    Property("isolated-nodes", "a graph with nodes without edges has finite logits"),
    Property("hubs", "a node that all others are linked to has finite logits"),
    Property("self-loops", "a graph with self-loops has finite logits"),
    Property("duplicate-edges", "an edge that is listed twice has finite logits"),
    Property("separate-parts", "a part is answered as if it were alone", of_graphs=False),
    Property("locality", "nodes more than 32 hops away do not matter", of_graphs=False),
    Property("batch-independence", "graphs of a batch do not see each other", of_nodes=False),
    Property("training-mode", "training mode differs by dropout and normalisation alone"),
    Property("double-precision", "float64 gives what float32 gives"),
    Property("memory-layout", "tensors need not be contiguous"),
    Property("int32-edges", "edges of int32 give the same answer, or are refused"),
    Property("unit-weights", "edge weights of 1 are no weights"),
    Property("label-leakage", "labels outside the training mask do not matter", of_graphs=False),
    Property("state-dict", "saved and loaded weights give the same answers"),
    Property("torch-compile", "torch.compile gives the same answers"),
    Property("devices", "a GPU gives what the CPU gives"),
    Property("scale", "how time grows with the number of edges; always passes"),
)
PROPERTIES: Final[Mapping[str, Property]] = MappingProxyType({entry.name: entry for entry in _ALL})


@dataclass(frozen=True, kw_only=True)
class PropertyResult:
    """The result of a property.

    Attributes:
        name: of the property.
        result: `skip` if the property says nothing about the model or cannot be checked.
        message: how it fails on the smallest graph found, why it is skipped, or what else was
            seen; may hold a traceback.
        nodes: of that graph; 0 without one.
        edges: of that graph, both directions of each.
        code: lines of Python that make that graph; empty without one.
    """

    name: str
    result: Literal["pass", "fail", "skip"]
    message: str = ""
    nodes: int = 0
    edges: tuple[tuple[int, int], ...] = ()
    code: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """The message on one line."""
        return on_one_line(self.message)

    @property
    def explanation(self) -> str:
        """Why it fails, and the graph, for people."""
        graph = ["", "The smallest graph found:", "", *self.code] if self.code else []
        says = f"{self.name}: {PROPERTIES[self.name].says}"
        page = f"See docs/reference/properties/{self.name}.md"
        return "\n".join([says, self.message, *graph, "", page])


def on_one_line(message: str) -> str:
    """Return the first and the last line, which of a traceback say where and what."""
    lines = message.strip().splitlines()
    return " ... ".join([lines[0], *lines[1:][-1:]]) if lines else ""


def names_of(*, of_graphs: bool) -> list[str]:
    """Return the names of the properties that models of nodes, or of graphs, can have."""
    return [entry.name for entry in _ALL if (entry.of_graphs if of_graphs else entry.of_nodes)]
