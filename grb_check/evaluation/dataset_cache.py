"""The state that the cases of one dataset share: the dataset, the harness's models and the victims.

Nothing else in this package remembers an earlier case, and no result depends on what is cached
here: only time does.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import torch

from grb_check import datasets
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.frozen_columns import check_columns
from grb_check.datasets.metric import measured_by, metric_of
from grb_check.datasets.source import DataChange
from grb_check.evaluation.harness_models import HarnessModels
from grb_check.evaluation.victims import TrainedVictims, our_warnings
from grb_check.store.pack import Pack
from grb_check.store.store import Store


class DatasetCache:
    """Results that the cases of one dataset share.

    Attributes:
        harness: surrogates and references; it holds the dataset itself, its fingerprint, the
            store and the device.
        victims: trained models under test.
        notices: warnings given while the dataset was loaded, but for changes.
        repaired: changes that its reader made.
    """

    def __init__(
        self,
        harness_models: HarnessModels,
        source: datasets.Source,
        notices: tuple[str, ...] = (),
        repaired: tuple[str, ...] = (),
    ) -> None:
        self.harness = harness_models
        self.victims = TrainedVictims(harness_models.dataset, source, harness_models.device)
        self.notices = notices
        self.repaired = repaired


def load_cache(
    source: datasets.Source, store: Store, device: torch.device, pack: Pack | None = None
) -> DatasetCache:
    """Load a dataset onto the device, with an empty cache.

    Raises:
        DataError, UsageError: see `datasets.load`.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dataset = datasets.load_either(source)
        if isinstance(dataset, Dataset):
            whole = dataset.all_pairs
            check_columns(whole, dataset.name)
            if whole is not dataset.graph:
                check_columns(dataset.graph, f"{dataset.name}, edges that attacks change")
    metric = metric_of(dataset, source.places.metric)
    dataset = measured_by(dataset, metric)
    given = dataset.given_edges
    on_device = replace(
        dataset,
        graph=dataset.graph.to(device),
        given_edges=None if given is None else given.to(device),
    )
    harness_models = HarnessModels(on_device, dataset.fingerprint(), store, device, metric, pack)
    changes = [w.message.change for w in caught if isinstance(w.message, DataChange)]
    others = [w for w in caught if not isinstance(w.message, DataChange)]
    repaired = tuple(dict.fromkeys(changes))
    return DatasetCache(harness_models, source, our_warnings(others), repaired)
