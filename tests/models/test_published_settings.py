"""Published settings of the models for sets of graphs, and how the table is read."""

from __future__ import annotations

import dataclasses

import pytest

from grb_check.models.published import (
    GraphModel,
    GraphSettings,
    graph_settings,
    width_of_layers,
)

MODELS: tuple[GraphModel, ...] = ("GCN", "GIN", "InfoGraph", "GraphCL", "AD-GCL")


@pytest.mark.parametrize(
    ("printed", "layers", "expected"),
    [(512, 8, 64), (512, 12, 43), (256, 8, 32), (128, 4, 128), (32, 4, 32), (32, 5, 32)],
)
def test_large_widths_are_those_of_all_layers_together(
    printed: int, layers: int, expected: int
) -> None:
    """InfoGraph's 256 are 8 layers of 32 columns."""
    assert width_of_layers(printed, layers) == expected


@pytest.mark.parametrize("dataset", ["mutag", "synthetic-molecules", ""])
@pytest.mark.parametrize("model", MODELS)
def test_a_dataset_without_a_row_has_that_of_proteins(model: GraphModel, dataset: str) -> None:
    """With more epochs if the printed number is small."""
    row, own = graph_settings(model, "proteins"), graph_settings(model, dataset)
    more = {"GIN": 40, "GraphCL": 40}.get(model, row.epochs)
    assert own == dataclasses.replace(row, epochs=more)


def test_a_row_of_the_table() -> None:
    """AD-GCL, the only model without blanks, and the GCN."""
    row = graph_settings("AD-GCL", "dd")
    assert (row.lr, row.layers, row.width, row.dropout, row.patience) == (0.01, 5, 32, 0.5, 20)
    assert row.batch_size == 64
    assert graph_settings("GCN", "nci1") == GraphSettings(lr=0.005, epochs=50, layers=4, width=128)
