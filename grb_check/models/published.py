"""The hyper-parameters that GRB publishes for its models (Tables 6 to 10)."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any, Final

FALLBACK: Final = "grb-cora"  # whose hyper-parameters datasets get that GRB has none for


def hyper_parameters(model: str, dataset: str) -> dict[str, Any]:
    """The published row of a model, such as "GIN", for a dataset.

    That of grb-cora where GRB has none for the dataset, or none for the model on it.
    """
    text = (
        resources.files("grb_check").joinpath("models/paper_figures/models.json").read_text("utf-8")
    )
    rows = json.loads(text)["datasets"]
    row: dict[str, Any] = rows.get(dataset, {}).get(model) or rows[FALLBACK][model]
    return row
