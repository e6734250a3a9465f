"""From a source to a checked dataset: fallbacks, names and first use."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tiny import write_dataset

from grb_check.datasets import Places, find, load, load_graph_set
from grb_check.datasets.lock import recorded
from grb_check.errors import DataError, UsageError


def test_first_use_is_recorded_only_if_the_dataset_is_good(tmp_path: Path) -> None:
    """A directory that cannot be read is not recorded."""
    places = Places(home=tmp_path / "home")
    source = find(str(write_dataset(tmp_path / "tiny")), places)
    labels = source.path / "labels.npz"
    content = labels.read_bytes()
    labels.write_bytes(content[:-30])
    with pytest.raises(DataError, match=r"labels\.npz"):
        load(source)
    assert recorded(source.lock_key, places.home) is None
    labels.write_bytes(content)
    load(source)
    assert set(recorded(source.lock_key, places.home) or ()) == set(source.format.files(source))


def test_a_published_name_obliges(tmp_path: Path) -> None:
    """Another graph called grb-cora is refused, under another name it is taken."""
    folder = write_dataset(tmp_path / "grb-cora")
    places = Places(home=tmp_path / "home")
    with pytest.raises(DataError, match="nodes: expected 2,680, found 160"):
        load(find(str(folder), places))
    assert load(find(f"mine={folder}", places)).num_nodes == 160


def test_a_single_graph_may_have_the_name_of_a_set_of_graphs(tmp_path: Path) -> None:
    """The published figures of the set do not concern it."""
    folder = write_dataset(tmp_path / "dd")
    assert load(find(str(folder), Places(home=tmp_path / "home"))).num_nodes == 160


def test_a_set_with_a_split_may_be_asked_for_it(tmp_path: Path) -> None:
    """One without is refused; a transductive set does not exist."""
    source = find("synthetic-molecules", Places(home=tmp_path))
    given = replace(source, places=Places(home=tmp_path, split="given"))
    with pytest.raises(DataError, match="has no split of its own; leave out --grb-split=given"):
        load_graph_set(given)
    whole = replace(source, places=Places(home=tmp_path, training="transductive"))
    with pytest.raises(UsageError, match=r"training transductive .*allowed for sets: inductive;"):
        load_graph_set(whole)
