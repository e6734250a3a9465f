"""The known datasets: how large each is, and where it stands on this machine. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from grb_check.datasets import lock
from grb_check.datasets.catalogue import (
    GRAPH_SETS,
    GRB_FILES,
    PLANETOID,
    UPSTREAM,
    Source,
    find,
    known_names,
    missing,
)
from grb_check.datasets.download.sources import urls_for
from grb_check.datasets.identity import files_of, key_of
from grb_check.datasets.places import Places
from grb_check.datasets.published import SIZES, names, sizes
from grb_check.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the list.

    Attributes:
        name: as in case ids.
        nodes: published number, as text; likewise `edges`, `features` and `classes`. Of sets of
            graphs the totals.
        state: where it is, or where it would come from, and what is known of it.
    """

    name: str
    nodes: str
    edges: str
    features: str
    classes: str
    state: str


def entries(places: Places) -> list[Entry]:
    """Every known dataset, single graphs first."""
    return [_entry(name, places) for name in (*known_names(), *GRAPH_SETS)]


def _entry(name: str, places: Places) -> Entry:
    size = sizes()[name]
    try:
        state = _present(find(name, replace(places, download=False)))
    except UsageError:
        state = _absent(name, places)
    if name in GRAPH_SETS:
        state = f"set of graphs, {state}"
    texts = {figure: f"{size[figure]:,}" for figure in SIZES}
    return Entry(name=name, state=state, **texts)


def _present(source: Source) -> str:
    if source.kind in ("bundled", "bundled-graphs"):
        return "bundled"
    if source.kind == "synthetic":
        is_made = not missing(source.path, GRB_FILES)
        return f"generated in {source.path}" if is_made else "generated on first use"
    verb = "rebuilt from" if source.kind == "rebuild" else "in"
    used = lock.recorded(key_of(source), source.places.home)
    if source.kind == "zip":  # which is opened when it is used
        return f"{verb} {source.path}"
    if used is None:
        return f"{verb} {source.path}, not used yet"
    sizes_now = {name: path.stat().st_size for name, path in files_of(source).items()}
    if sizes_now != {name: each.size for name, each in used.items()}:
        return f"{verb} {source.path}, changed since it was used"
    return f"{verb} {source.path}, {'verified' if source.name in names() else 'used before'}"


def _absent(name: str, places: Places) -> str:
    if name in PLANETOID or name in GRAPH_SETS:
        return "not here; fetch downloads it with PyG"
    hosts = [urlsplit(url).hostname or url for url in urls_for(name, places.sources)]
    upstream = f", else rebuilds it from PyG's {UPSTREAM[name]}" if name in UPSTREAM else ""
    return f"not here; fetch downloads it from {', '.join(hosts) or 'nowhere'}{upstream}"
