"""Download a dataset with published figures into the data directory, and verify it."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from grb_check.datasets import lock, published
from grb_check.datasets.download.fetch import fetch
from grb_check.datasets.download.sources import urls_for
from grb_check.datasets.source import DataNotice, Source
from grb_check.errors import DataError

if TYPE_CHECKING:
    from grb_check.datasets.dataset import Dataset


def fetched(source: Source) -> Source:
    """Download a dataset's files into `source.path`, unless they are there, and verify them.

    Raises:
        DataError: no download source has files with the published figures, or they differ from
            those of the first use.

    Warns:
        DataNotice: a download source failed and the next one was used.
    """
    name, home, read = source.name, source.places.home, source.format.read
    forget = f"delete the entry {source.lock_key} there"

    def check(folder: Path) -> None:
        here = replace(source, path=folder)
        files = source.format.files(here)
        lock.compare(source.lock_key, files, home, where="the download", accept=forget)
        wrong = published.deviations(cast("Dataset", read(here)))
        if wrong:
            raise DataError(f"this is not the {name} that is published: {wrong}")

    files = source.format.files(replace(source, pending=False))
    urls = urls_for(name, source.places.sources)
    result = fetch(name, home, urls=urls, files=tuple(files), check=check)
    for failure in result.failures:
        warnings.warn(failure, DataNotice, stacklevel=2)
    if result.url is not None:
        stamps = {each: lock.stamp(path) for each, path in files.items()}
        lock.record_first_use(source.lock_key, stamps, home, origin=result.url)
    return replace(source, pending=False)
