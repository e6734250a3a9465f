"""Read a source into a checked dataset, whose files have not changed since their first use."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import torch

from grb_check.datasets import lock, published
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.graph_dataset import GraphSet
from grb_check.datasets.normalisation import REMARKS, scaled
from grb_check.datasets.source import Source, data_home
from grb_check.errors import DataError, UsageError
from grb_check.files.text import command_line


def load_graph(source: Source) -> Dataset:
    """See `datasets.load`."""
    dataset = cast(Dataset, _read(source))
    if source.places.training == "transductive":
        origin = f"{dataset.origin}, learned transductively"
        dataset = replace(dataset, transductive=True, origin=origin)
    return dataset


def load_graphs(source: Source) -> GraphSet:
    """See `datasets.load_graph_set`."""
    source.check_rules()
    graphs = cast(GraphSet, _read(source))
    if source.places.split == "given" and not graphs.own_split:
        raise DataError(
            f"dataset {source.name}: has no split of its own; leave out --grb-split=given for one "
            f"of 80 % and 20 %, or name the part of each graph: split='train', 'val' or 'test'"
        )
    whole, rule = graphs.graphs.clone(), source.features
    whole.x = torch.from_numpy(scaled(whole.x.numpy(), rule))
    origin = graphs.origin + REMARKS[rule] * (rule != "given")
    return replace(graphs, graphs=whole, features=rule, origin=origin)


def accept(source: Source) -> str:
    """Record the files of a source, as they are now, as those of its first use.

    Returns:
        Their key in the lock file.

    Raises:
        UsageError: it has no files of its own.
        DataError: they are not a sound dataset; an earlier record stays.
    """
    with source.format.prepared(source) as prepared:
        stamps = {name: lock.stamp(path) for name, path in prepared.format.files(prepared).items()}
        if not stamps:
            raise UsageError(f"dataset {source.given}: there are no files to record checksums of")
        _checked(prepared)
        lock.record(prepared.lock_key, stamps, source.places.home, origin=prepared.origin)
        return prepared.lock_key


def _read(source: Source) -> Dataset | GraphSet:
    """Compare files with their first use, read them, and record a first use without errors."""
    with source.format.prepared(source) as prepared:
        absent = prepared.missing()
        if absent:
            raise DataError(f"dataset {prepared.name}: {prepared.path} lacks {', '.join(absent)}")
        files, home = prepared.format.files(prepared), prepared.places.home
        if not files:
            return _checked(prepared)
        accept_command = lock_command(source)
        stamps = lock.compare(
            prepared.lock_key, files, home, where=prepared.origin, accept=accept_command
        )
        created = _checked(prepared)
        lock.record_first_use(prepared.lock_key, stamps, home, origin=prepared.origin)
        return created


def _checked(source: Source) -> Dataset | GraphSet:
    """Read a source; of one graph figures are compared with GRB's, and features are scaled."""
    dataset, rule = source.format.read(source), source.features
    if not isinstance(dataset, Dataset):
        return dataset
    published.check(dataset)
    dataset.graph.x = torch.from_numpy(scaled(dataset.graph.x.numpy(), rule))
    return replace(dataset, features=rule, origin=dataset.origin + REMARKS[rule])


def lock_command(source: Source) -> str:
    """Return the command with which a user accepts that the files have changed."""
    places = source.places
    words = ["lock", source.given, *(f"--data={folder}" for folder in places.folders)]
    if places.home != data_home():
        words.append(f"--into={places.home}")
    return f"run: python -m grb_check {command_line(words)}"
