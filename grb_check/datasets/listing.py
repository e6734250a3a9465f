"""The known datasets: how large each is, and where it is on this machine. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from grb_check.datasets import lock
from grb_check.datasets.catalogue import GRAPH_SETS, find, find_original, known_names
from grb_check.datasets.published import SIZES, names, sizes
from grb_check.datasets.source import Places, Source
from grb_check.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class ListedDataset:
    """One line of the list.

    Attributes:
        name: as in case ids.
        nodes: published number as text, like `edges`, `features` and `classes`; for sets of graphs
            the totals.
        state: its path, or its download sources, and whether its files are verified.
    """

    name: str
    nodes: str
    edges: str
    features: str
    classes: str
    state: str


def entries(places: Places) -> list[ListedDataset]:
    """List every known dataset, single graphs first."""
    return [_entry(name, places) for name in (*known_names(), *GRAPH_SETS)]


def _entry(name: str, places: Places) -> ListedDataset:
    size = sizes()[name]
    try:
        source = find(name, replace(places, download=False))
    except UsageError:
        source = find_original(name, replace(places, download=True))
    state = source.format.describe(source) + _use(source)
    if source.of_graphs:
        state = f"set of graphs, {state}"
    texts = {figure: f"{size[figure]:,}" for figure in SIZES}
    return ListedDataset(name=name, state=state, **texts)


def _use(source: Source) -> str:
    """Return whether the files were used before; empty if the lock file has other names."""
    files = {} if source.pending else source.format.files(source)
    used = lock.recorded(source.lock_key, source.places.home)
    if not files or (used is not None and used.keys() != files.keys()):
        return ""
    if used is None:
        return ", not used yet"
    if any(path.stat().st_size != used[name].size for name, path in files.items()):
        return ", changed since it was used"
    return f", {'verified' if source.name in names() else 'used before'}"
