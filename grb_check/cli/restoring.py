"""The settings of a run, from its record: as far as ranks and reports need them. No torch."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grb_check.datasets import Places, Source
from grb_check.datasets.formats.grb_files import GRB_FILES
from grb_check.datasets.formats.tu_dataset import TU_DATASET
from grb_check.gate.limits import Gate, Threshold
from grb_check.gate.rank_limits import RankLimit
from grb_check.ranking.comparison_models import read_comparison_models
from grb_check.ranking.lowest import REFERENCE
from grb_check.settings.model_specs import ModelSpec
from grb_check.settings.raw_values import split_at_commas
from grb_check.settings.report_paths import Outputs
from grb_check.settings.settings import Settings


def settings_of(record: Mapping[str, Any]) -> Settings:
    """The settings that the record tells, with today's data home and without outputs.

    Models and datasets are names alone: nothing can be loaded or run with these settings.

    Args:
        record: the entry `settings` of a run record, see `json_report.record`.

    Raises:
        KeyError, TypeError, ValueError: the record is damaged.
    """
    places = Places(split=record["split"], training=record["training"], features=record["features"])
    return Settings(
        models=tuple(map(_model, record["models"])),
        suite=record["suite"],
        datasets=tuple(
            Source(name, TU_DATASET if name in record["graph_sets"] else GRB_FILES, Path(name))
            for name in record["datasets"]
        ),
        difficulties=tuple(record["difficulties"]),
        attacks=tuple(tuple(each.split("/", 1)) for each in record["attacks"]),
        patterns=tuple(record["patterns"]),
        repeats=record["repeats"],
        gate=_gate(record["gate"]),
        places=places,
        store=None,
        device=record["device"],
        outputs=Outputs(),
        origins=record["origins"],
        budgets=tuple(record["budgets"]),
        comparison_models=read_comparison_models(split_at_commas([record["rank_against"]]), Path),
        rank_limits=tuple(RankLimit(**each) for each in record["rank_limits"]),
        delta_to="" if record["delta_to"] == REFERENCE else record["delta_to"],
    )


def _model(record: Mapping[str, Any]) -> ModelSpec:
    return ModelSpec(
        label=record["label"], target=record["target"], args=ast.literal_eval(record["args"])
    )


def _gate(record: Mapping[str, Any]) -> Gate:
    thresholds = tuple(Threshold(**each) for each in record["thresholds"])
    return Gate(**{**record, "thresholds": thresholds})
