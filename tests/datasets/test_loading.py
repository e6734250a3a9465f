"""From a source to a checked dataset: fallbacks, names and first use."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from bad_server import Answer, serving
from tiny import write_dataset

from benchmarks.synthetic import PRESETS, generate
from grb_check.datasets import DataNotice, Places, find, load, load_graph_set, loading
from grb_check.datasets.formats.rebuilt import REBUILT
from grb_check.datasets.lock import recorded
from grb_check.datasets.normalisation import with_row_features_of_graphs
from grb_check.datasets.reading import saint_files
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


def test_a_data_folder_that_cannot_be_written_is_a_notice(tmp_path: Path) -> None:
    """The dataset can be used; a notice says that its checksums are not kept."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".locks").touch()
    source = find(str(write_dataset(tmp_path / "tiny")), Places(home=home))
    with pytest.warns(DataNotice, match="are not kept"):
        load(source)
    with pytest.raises(DataError, match="cannot be written"):
        loading.accept(source)


def test_a_single_graph_may_have_the_name_of_a_set_of_graphs(tmp_path: Path) -> None:
    """The published figures of the set do not concern it."""
    folder = write_dataset(tmp_path / "dd")
    assert load(find(str(folder), Places(home=tmp_path / "home"))).num_nodes == 160


def test_where_nothing_can_be_had_both_ways_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message has each source with its reason, and the failure of the upstream files."""

    def dead(name: str, home: Path) -> Path:
        raise DataError("PyG's download failed: no network")

    monkeypatch.setattr(saint_files, "fetch_upstream", dead)
    with serving(Answer(status=404)) as server:
        places = Places(home=tmp_path, download=True, sources=(server.url(),))
        with pytest.raises(DataError, match=r"(?s)404.*rebuild.*no network"):
            load(find("grb-flickr", places))


@pytest.fixture(scope="module")
def flickr_raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """GraphSAINT's files of a made-up graph with grb-flickr's published figures."""
    made = generate(PRESETS["synthetic-flickr"], 0)
    num_nodes, num_features = made.features.shape
    features = np.random.default_rng(0).random((num_nodes, num_features)) < 0.01
    features[:, 0] = np.arange(num_nodes) < 0.4475 * num_nodes  # standardised: -0.9
    features[:, 1] = np.arange(num_nodes) == 5  # standardised: 298.7
    raw = tmp_path_factory.mktemp("root") / "Flickr" / "raw"
    raw.mkdir(parents=True)
    sp.save_npz(raw / "adj_full.npz", made.adjacency.astype(np.float32))
    np.save(raw / "feats.npy", features.astype(np.float64))
    classes = {str(node): int(label) for node, label in enumerate(made.labels)}
    (raw / "class_map.json").write_text(json.dumps(classes))
    (raw / "role.json").write_text('{"tr": [0], "va": [1], "te": [2]}')
    return raw


@pytest.mark.slow
def test_flickr_is_rebuilt_where_the_sources_are_dead(
    flickr_raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notice says why; the next use finds the upstream files and asks for nothing."""
    home = tmp_path / "home"
    target = home / "pyg" / "Flickr" / "raw"

    def fetched(name: str, home: Path) -> Path:
        target.parent.mkdir(parents=True)
        target.symlink_to(flickr_raw)
        return target

    monkeypatch.setattr(saint_files, "fetch_upstream", fetched)
    with serving(Answer(b"<html>gone</html>", headers={"Content-Type": "text/html"})) as server:
        places = Places(home=home, download=True, sources=(server.url(),))
        with pytest.warns(DataNotice, match=r"(?s)grb-flickr will be rebuilt, because .*web page"):
            dataset = load(find("grb-flickr", places))
        assert dataset.rebuilt
        assert find("grb-flickr", places).format is REBUILT
        assert len(server.requests) == 1


def test_a_set_with_a_split_may_be_asked_for_it(tmp_path: Path) -> None:
    """One without is refused; a transductive set does not exist."""
    source = find("synthetic-molecules", Places(home=tmp_path))
    given = replace(source, places=Places(home=tmp_path, split="given"))
    with pytest.raises(DataError, match="has no split of its own; leave out --grb-split=given"):
        load_graph_set(given)
    whole = replace(source, places=Places(home=tmp_path, training="transductive"))
    with pytest.raises(UsageError, match="never transductively"):
        load_graph_set(whole)


def test_features_of_a_set_can_have_rows_that_sum_to_one(tmp_path: Path) -> None:
    """One-hot rows stay as they are."""
    source = find("synthetic-molecules", Places(home=tmp_path))
    plain = load_graph_set(source)
    rows = load_graph_set(replace(source, places=Places(home=tmp_path, features="rows")))
    assert rows.graphs.x.equal(plain.graphs.x)
    assert rows.origin == f"{plain.origin}, row-normalised features"
    wide = replace(plain, graphs=plain.graphs.clone())
    wide.graphs.x[0] = torch.arange(wide.graphs.x.shape[1]) - 1.0
    scaled = with_row_features_of_graphs(wide).graphs.x
    assert scaled[0].abs().sum() == pytest.approx(1)
    assert scaled[1:].equal(wide.graphs.x[1:])
