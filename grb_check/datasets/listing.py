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
from grb_check.datasets.identity import files_of, key_of
from grb_check.datasets.places import Places
from grb_check.datasets.published import SIZES, sizes
from grb_check.datasets.sources import urls_for
from grb_check.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the list.

    Attributes:
        name: as in case ids.
        nodes: published number, as text; likewise `edges`, `features` and `classes`. Of sets of
            graphs the totals.
        present: whether it can be used without the network.
        state: where it is, or where it would come from, and what is known of it.
    """

    name: str
    nodes: str
    edges: str
    features: str
    classes: str
    present: bool
    state: str


def entries(places: Places) -> list[Entry]:
    """Every known dataset, single graphs first."""
    return [_entry(name, places) for name in (*known_names(), *GRAPH_SETS)]


def _entry(name: str, places: Places) -> Entry:
    size = sizes()[name]
    try:
        source = find(name, replace(places, download=False))
    except UsageError:
        present, state = False, _absent(name, places)
    else:
        present, state = _present(source)
    texts = {figure: f"{size[figure]:,}" for figure in SIZES}
    return Entry(name=name, present=present, state=state, **texts)


def _present(source: Source) -> tuple[bool, str]:
    if source.kind == "bundled":
        return True, "bundled"
    if source.kind == "synthetic" and missing(source.path, GRB_FILES):
        return False, "generated on first use"
    words = {"synthetic": "generated in", "rebuild": "rebuilt from", "graphs": "in"}
    verb = words.get(source.kind, "in")
    known = _is_recorded(source)
    seen = {True: ", verified", False: ", not used yet", None: ""}[known]
    return True, f"{verb} {source.path}{seen}"


def _is_recorded(source: Source) -> bool | None:
    """Whether the lock file has these files in these sizes; None where it has no say."""
    on_disk = files_of(source)
    if not on_disk:
        return None
    stamps = lock.recorded(key_of(source), source.places.home)
    if stamps is None:
        return False
    sizes = {name: path.stat().st_size for name, path in on_disk.items()}
    return sizes == {name: each.size for name, each in stamps.items()}


def _absent(name: str, places: Places) -> str:
    if name in PLANETOID or name in GRAPH_SETS:
        return "not here; fetch downloads it with PyG"
    hosts = [urlsplit(url).hostname or url for url in urls_for(name, places.sources)]
    upstream = f", else rebuilds it from PyG's {UPSTREAM[name]}" if name in UPSTREAM else ""
    return f"not here; fetch downloads it from {', '.join(hosts) or 'nowhere'}{upstream}"
