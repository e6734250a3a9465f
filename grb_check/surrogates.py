"""The harness's own GCN: the attacker's surrogate and, with other seeds, the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from grb_check.conventions import Adapter, detect_convention
from grb_check.datasets.dataset import Dataset
from grb_check.errors import DataError
from grb_check.models.gcn import GCN, gcn, hyper_parameters
from grb_check.randomness import isolated_randomness
from grb_check.training import TrainingSettings, train
from grb_check.victims import Victim, freeze

NAME: Final = "reference GCN"
VERSION: Final = 1  # raised whenever the same recipe comes to give another model


def surrogate(dataset: Dataset, *, seed: int, device: torch.device) -> Victim:
    """A GCN with the published hyper-parameters, trained on the dataset from this seed."""
    with isolated_randomness(seed):
        module = gcn(dataset.num_features, dataset.num_classes, dataset.name).to(device)
    adapter = _adapter(module)
    train(adapter, dataset, _settings(dataset), seed=seed, device=device)
    freeze(module)
    return Victim(adapter, dataset.num_classes)


def recipe(dataset: Dataset) -> str:
    """Everything beside dataset and seed that determines a surrogate, as stable text."""
    row = hyper_parameters(dataset.name)
    return (
        f"GCN {VERSION}: hidden_sizes={row['hidden_sizes']}, dropout={row['dropout']}, "
        f"{_settings(dataset)}, torch {torch.__version__}"
    )


def to_arrays(victim: Victim) -> dict[str, NDArray[np.float32]]:
    """The parameters of a surrogate by name."""
    return {key: value.cpu().numpy() for key, value in victim.module.state_dict().items()}


def from_arrays(
    dataset: Dataset, arrays: Mapping[str, NDArray[np.float32]], device: torch.device
) -> Victim:
    """The surrogate that `to_arrays` was given.

    Raises:
        DataError: names, shapes or types are not those of the dataset's surrogate, or a value is
            not finite.
    """
    with isolated_randomness(0):
        module = gcn(dataset.num_features, dataset.num_classes, dataset.name)
    expected = module.state_dict()
    if set(arrays) != set(expected):
        raise DataError(f"stored GCN: expected arrays {sorted(expected)}, got {sorted(arrays)}")
    for key, value in expected.items():
        array = arrays[key]
        if array.shape != tuple(value.shape) or array.dtype != np.float32:
            raise DataError(
                f"stored GCN: {key} is {array.dtype} {list(array.shape)}, expected float32 "
                f"{list(value.shape)}"
            )
        if not np.isfinite(array).all():
            raise DataError(f"stored GCN: {key} holds values that are not finite")
    module.load_state_dict({key: torch.from_numpy(np.array(a)) for key, a in arrays.items()})
    freeze(module)
    return Victim(_adapter(module.to(device)), dataset.num_classes)


def _adapter(module: GCN) -> Adapter:
    return Adapter(module, NAME, detect_convention(module, "forward", NAME))


def _settings(dataset: Dataset) -> TrainingSettings:
    return TrainingSettings(lr=hyper_parameters(dataset.name)["lr"])
