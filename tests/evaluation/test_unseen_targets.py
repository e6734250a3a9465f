"""Finished models, and the nodes that they were trained on."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from trial_spies import DATASET, ready

from grb_check.datasets.dataset import Dataset
from grb_check.datasets.metric import measured_by
from grb_check.errors import ModelError
from grb_check.evaluation.unseen_targets import check_unseen


def test_a_finished_model_is_not_tested_on_its_training_nodes() -> None:
    """As GRB's split of a graph with masks of its own would do."""
    model = ready()
    check_unseen(model, DATASET)
    check_unseen(model, replace(DATASET, own_training=DATASET.train))
    seen = torch.cat([DATASET.train, DATASET.test["full"][:3]])
    with pytest.raises(ModelError, match=r"3 test nodes of GRB's split .*leave out --grb-split"):
        check_unseen(model, replace(DATASET, own_training=seen))


def test_its_threshold_is_not_set_on_its_training_nodes() -> None:
    """Nor are areas under curves measured on them, whatever their class."""
    model, dataset = ready(), measured_by(DATASET, "recall@0.2+positive=1")
    assert isinstance(dataset, Dataset)
    assert dataset.others is not None
    check_unseen(model, replace(dataset, own_training=dataset.train))
    for part in (dataset.val, dataset.others):
        seen = torch.cat([dataset.train, part[:2]])
        with pytest.raises(ModelError, match="2 test or validation nodes of GRB's split"):
            check_unseen(model, replace(dataset, own_training=seen))
