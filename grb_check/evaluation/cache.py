"""Everything that is worth keeping between cases, in one place.

An evaluator holds one `DatasetCache` for each of the datasets used last. Nothing else in this
package remembers an earlier case, and no result depends on what is kept here: only time does.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Final, TypeAlias

import torch

from grb_check import datasets
from grb_check.cases.case import Case
from grb_check.cases.repeat_results import RepeatResult
from grb_check.evaluation.own_models import OwnModels
from grb_check.evaluation.trained_victims import TrainedVictims, our_warnings
from grb_check.store.pack import Pack
from grb_check.store.store import Store

MOST_BYTES: Final = 2**28  # of perturbations kept for `worst`, for each dataset

# Key of the model, case, seed of the repeat, kinds of the references.
CaseKey: TypeAlias = tuple[object, Case, int, tuple[str, ...]]


class KnownResults:
    """Results of earlier cases, of which `worst` takes the strongest.

    The oldest are dropped when their perturbations take more than `most_bytes`.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._known: dict[CaseKey, RepeatResult] = {}

    def get(self, key: CaseKey) -> RepeatResult | None:
        """Return what was measured for this key, if it is still known."""
        return self._known.get(key)

    def add(self, key: CaseKey, result: RepeatResult) -> None:
        """Keep a result."""
        if key in self._known:
            self._bytes -= len(self._known.pop(key).perturbation)
        self._known[key] = result
        self._bytes += len(result.perturbation)
        while self._bytes > self._most_bytes:
            self._bytes -= len(self._known.pop(next(iter(self._known))).perturbation)


class DatasetCache:
    """Results that the cases of one dataset share.

    Attributes:
        own: surrogates and reference GCNs; it holds the dataset itself, its fingerprint, the store
            and the device.
        victims: trained models under test.
        results: of earlier cases, for `worst`.
        notices: warnings given while the dataset was loaded.
    """

    def __init__(self, own: OwnModels, notices: tuple[str, ...] = ()) -> None:
        self.own = own
        self.victims = TrainedVictims(own.dataset, own.device)
        self.results = KnownResults()
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
    return DatasetCache(own, our_warnings(caught))
