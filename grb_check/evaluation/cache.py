"""Everything that is worth keeping between cases, in one place.

An evaluator holds one `DatasetCache` for each of the datasets used last. Nothing else in this
package remembers an earlier case, and no result depends on what is kept here: only time does.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import torch

from grb_check import datasets
from grb_check.evaluation.own_models import OwnModels
from grb_check.evaluation.trained_victims import TrainedVictims, our_warnings
from grb_check.store.pack import Pack
from grb_check.store.store import Store


class DatasetCache:
    """Results that the cases of one dataset share.

    Attributes:
        own: surrogates and reference GCNs; it holds the dataset itself, its fingerprint, the store
            and the device.
        victims: trained models under test.
        notices: warnings given while the dataset was loaded.
    """

    def __init__(
        self, own: OwnModels, source: datasets.Source, notices: tuple[str, ...] = ()
    ) -> None:
        self.own = own
        self.victims = TrainedVictims(own.dataset, source, own.device)
        self.notices = notices


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
    on_device = replace(dataset, graph=dataset.graph.to(device))
    own = OwnModels(on_device, dataset.fingerprint(), store, device, pack)
    return DatasetCache(own, source, our_warnings(caught))
