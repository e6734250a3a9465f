"""Statistics that GRB publishes of its datasets, and comparisons with them. Imports no torch.

GRB publishes no checksums: a dataset is accepted if all its figures agree with the printed ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from grb_check.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

    from grb_check.datasets.dataset import Dataset

SIZES: Final = ("nodes", "edges", "features", "classes")
HALF_DIGIT: Final = 0.0051  # of two printed decimals, slightly more because of ties
REBUILT: Final = 0.03  # relative tolerance of average degrees of a split that was drawn again


@dataclass(frozen=True, kw_only=True)
class PublishedFigure:
    """A figure of a dataset and the published one.

    Attributes:
        name: of the figure, for reports.
        actual: value of the loaded dataset, as text.
        expected: the published values that are accepted, as text; empty if none is published.
        agrees: whether `found` is one of them, up to the printed precision.
    """

    name: str
    actual: str
    expected: str
    agrees: bool


def published(name: str) -> Mapping[str, Any] | None:
    """Return the published row of a dataset (GRB, Tables 2 and 4); None for other names."""
    row: Mapping[str, Any] | None = _table()["datasets"].get(name)
    return row


def names() -> tuple[str, ...]:
    """Return the names of the datasets with published figures."""
    return tuple(_table()["datasets"])


def injection_row(dataset: Dataset) -> Mapping[str, Any] | None:
    """Return the published budget of injection attacks on a dataset (GRB, Table 12).

    None if it is none of GRB's as published: same name, numbers of nodes and features, and GRB's
    normalisation, which the range of injected features assumes.
    """
    row: Mapping[str, Any] | None = _table("injection_budgets")["datasets"].get(dataset.name)
    if row is None or dataset.features != "grb":
        return None
    same = (dataset.num_nodes, dataset.num_features) == (row["num_nodes"], row["num_features"])
    return row if same else None


def sizes() -> Mapping[str, Mapping[str, int]]:
    """Return known dataset -> `SIZES`; for sets of graphs the totals, and `graphs`."""
    table = _table()
    others = {
        name: {"edges": row.get("directed_edges"), **row} for name, row in table["others"].items()
    }
    rows: dict[str, Mapping[str, int]] = {**table["datasets"], **others}
    like = {name.replace("grb", "synthetic"): row for name, row in table["datasets"].items()}
    return {**like, **rows}


def degrees_of(dataset: Dataset) -> Tensor:
    """Return int64 [num_nodes], the number of neighbours in the whole graph."""
    degrees: Tensor = dataset.graph.edge_index[0].bincount(minlength=dataset.num_nodes)
    return degrees


def compare(dataset: Dataset) -> tuple[PublishedFigure, ...]:
    """Return the figures of a dataset, each with the published one of its name."""
    row = published(dataset.name) or _sizes_of_others(dataset)
    counts = {
        "nodes": dataset.num_nodes,
        "edges": dataset.num_edges,
        "features": dataset.num_features,
        "classes": dataset.num_classes,
    }
    figures = [_count(name, result, row.get(name)) for name, result in counts.items()]
    degrees = degrees_of(dataset).double()
    averages = {"all": degrees} | {
        level: degrees[nodes.to(degrees.device)] for level, nodes in dataset.test.items()
    }
    printed = row.get("average_degree", {})
    for level, values in averages.items():
        redrawn = dataset.rebuilt and level != "all"
        result = float(values.mean())
        slack = max(HALF_DIGIT, REBUILT * result) if redrawn else HALF_DIGIT
        figures.append(_decimal(f"average degree, {level}", result, printed.get(level), slack))
    bounds = row.get("feature_range", (None, None))
    feature_range = dataset.feature_range
    if dataset.features != "grb":
        from grb_check.datasets.normalisation import normalised_range  # imports numpy

        feature_range = normalised_range(dataset.graph.x.numpy())
    for end, result, expected in zip(("lowest", "highest"), feature_range, bounds, strict=True):
        figures.append(_decimal(f"{end} feature, normalised", result, expected, HALF_DIGIT))
    return (*figures, *_split_sizes(dataset, "average_degree" in row))


def deviations(dataset: Dataset) -> str:
    """Return a text of the figures that differ, expected and found; empty if none does."""
    return "; ".join(
        f"{figure.name}: expected {figure.expected}, found {figure.actual}"
        for figure in compare(dataset)
        if not figure.agrees
    )


def check(dataset: Dataset) -> None:
    """Check that a dataset with a published name has the published figures.

    Raises:
        DataError: lists each figure that differs, expected and found.
    """
    wrong = deviations(dataset)
    if wrong:
        msg = (
            f"{dataset.origin}: this is not the {dataset.name} that is published: {wrong}; "
            f"to use it anyway, give it another name: NAME=PATH"
        )
        raise DataError(msg)


def _sizes_of_others(dataset: Dataset) -> Mapping[str, Any]:
    """Return the known sizes of a dataset that is not one of GRB's."""
    row: Mapping[str, Any] = _table()["others"].get(dataset.name, {})
    if "graphs" in row:  # the dataset is a single graph, the row is about a set of that name
        return {}
    return {figure: row[figure] for figure in SIZES if figure in row}


def _split_sizes(dataset: Dataset, is_published: bool) -> list[PublishedFigure]:
    """Compare with GRB's shares (60 / 10 / 3 x 10 %); sizes may differ by rounding."""
    nodes = dataset.num_nodes
    shares = {"train": 0.6, "val": 0.1, "easy": 0.1, "medium": 0.1, "hard": 0.1}
    parts = {"train": dataset.train, "val": dataset.val, **dataset.test}
    figures = []
    for part, share in shares.items():
        result, published_size = parts[part].numel(), int(nodes * share)
        slack = 4 if part == "val" else 1  # the remainder of all other parts
        agrees = not is_published or abs(result - published_size) <= slack
        expected = f"{published_size:,}" if is_published else ""
        figures.append(
            PublishedFigure(
                name=f"{part} nodes", actual=f"{result:,}", expected=expected, agrees=agrees
            )
        )
    return figures


def _count(name: str, actual: int, expected: int | None) -> PublishedFigure:
    text = "" if expected is None else f"{expected:,}"
    agrees = expected is None or actual == expected
    return PublishedFigure(name=name, actual=f"{actual:,}", expected=text, agrees=agrees)


def _decimal(
    name: str, actual: float, expected: Sequence[float] | None, slack: float
) -> PublishedFigure:
    text = " or ".join(f"{value:.2f}" for value in expected or ())
    agrees = expected is None or any(abs(actual - value) <= slack for value in expected)
    return PublishedFigure(name=name, actual=f"{actual:.2f}", expected=text, agrees=agrees)


@cache
def _table(name: str = "datasets") -> dict[str, Any]:
    text = files("grb_check").joinpath(f"datasets/paper_figures/{name}.json").read_text("utf-8")
    table: dict[str, Any] = json.loads(text)
    return table
