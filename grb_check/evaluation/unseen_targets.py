"""The check that a finished model is not tested on the nodes that it was trained on."""

from __future__ import annotations

import torch

from grb_check.datasets.dataset import Dataset
from grb_check.datasets.graph_dataset import AnyDataset
from grb_check.errors import ModelError, count
from grb_check.evaluation.trained_model import TrainedModel


def check_unseen(model: TrainedModel, dataset: AnyDataset) -> None:
    """Check that no test node is a training node of the data's own split.

    Nor a validation node, where a threshold is set on these.

    Args:
        model: that was declared as finished, and so was trained on that split, as far as is known.
        dataset: whose split may be another.

    Raises:
        ModelError: some are; says which split to use.
    """
    if not isinstance(dataset, Dataset) or dataset.own_training is None:
        return
    of_recall = dataset.recall is not None  # whose threshold is set on validation nodes
    asked = torch.cat([dataset.tested, dataset.val]) if of_recall else dataset.tested
    seen = int(torch.isin(asked.cpu(), dataset.own_training.cpu()).sum())
    node = "test or validation node" if of_recall else "test node"
    if seen:
        raise ModelError(
            f"model {model.victim.name} is finished, and {count(seen, node)} of GRB's split "
            f"are in the train_mask of {dataset.name}, on which it was trained; leave out "
            f"--grb-split=grb, so that the split of the data is used, or give the factory of the "
            f"untrained model"
        )
