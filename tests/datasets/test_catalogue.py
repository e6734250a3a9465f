"""Datasets are found by name or path, without reading them; errors say what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from grb_check.datasets import Places, Source, find, load
from grb_check.datasets.catalogue import anchored, split_off_selection
from grb_check.datasets.formats.grb_files import GRB_FILES
from grb_check.datasets.formats.npz_graph import NPZ_GRAPH
from grb_check.datasets.formats.tu_dataset import TU_DATASET
from grb_check.datasets.source import Format, Selection
from grb_check.errors import DataError, UsageError

GRB = ("adj.npz", "features.npz", "labels.npz", "index.npz")
HOME = Path("/nowhere/home")


def touch(folder: Path, names: tuple[str, ...] = GRB) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch()
    return folder


def test_import_is_cheap() -> None:
    """Importing the package and finding the bundled dataset load neither torch nor numpy."""
    code = (
        "import sys; from grb_check.datasets import find; find('synthetic-cora'); "
        "sys.exit(bool({'torch', 'numpy', 'scipy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def at(*folders: Path, download: bool = False) -> Places:
    return Places(folders=folders, home=HOME, download=download)


def place(source: Source) -> tuple[str, Format, Path]:
    return source.name, source.format, source.path


@pytest.mark.parametrize(
    ("suffix", "kind"), [("zip", GRB_FILES), ("npz", NPZ_GRAPH)], ids=["zip", "npz"]
)
def test_file_is_named_after_its_stem(tmp_path: Path, suffix: str, kind: Format) -> None:
    """A zip or npz file is a dataset; in a data directory its stem is enough."""
    path = tmp_path / f"mine.{suffix}"
    path.touch()
    expected = ("mine", kind, path)
    assert expected == place(find(str(path))) == place(find("mine", at(tmp_path)))


def test_set_of_graphs_is_found_and_not_taken_for_one_graph(tmp_path: Path) -> None:
    """Loading it as a single graph is a usage error that lists single graphs."""
    parts = ("A", "graph_indicator", "graph_labels", "node_labels")
    raw = touch(tmp_path / "PROTEINS" / "raw", tuple(f"PROTEINS_{part}.txt" for part in parts))
    source = find("proteins", at(tmp_path))
    assert place(source) == ("proteins", TU_DATASET, raw)
    with pytest.raises(UsageError, match="proteins is a set of graphs"):
        load(source)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("grb-flikr", r"'grb-flikr': no such name.*did you mean grb-flickr\?.*synthetic-cora"),
        ("Synthetic-Cora", r"did you mean synthetic-cora\?"),
        ("zzz", "known are synthetic-cora, synthetic-fraud, grb-cora.*pyg:CLASS/NAME"),
        ("pyg:Planetoid/Pub Med", "give a class of torch_geometric.datasets"),
        ("pyg:", "give a class of torch_geometric.datasets"),
        ("./no/where.zip", "no .zip, .npz, .pt file of that name"),
        ("ogbn-arxiv", "python -m grb_check fetch ogbn-arxiv"),
        ("", "name=path"),
        ("two words", "name=path"),
        ("grb-cora\n", "name=path"),
        ("./no/where", "there is no directory './no/where'"),
        ("mine=", "there is no directory ''"),
        ("~no_such_user_/x", "there is no directory"),
        ("mine=x\0y", "there is no directory"),
        ("mine=" + "x" * 5000, "there is no directory"),
        ("grb-cora", "--grb-data=DIR"),
        ("planetoid-cora", "--grb-download"),
    ],
)
def test_what_cannot_be_found_is_a_usage_error(spec: str, message: str) -> None:
    """Each message names what was given and what to do, in one line."""
    with pytest.raises(UsageError, match=message) as raised:
        find(spec, at())
    assert "\n" not in str(raised.value)


def test_folder_with_an_impossible_name_asks_for_another(tmp_path: Path) -> None:
    """A directory whose name cannot stand in a case id needs `name=path`."""
    folder = touch(tmp_path / "a name")
    with pytest.raises(UsageError, match=r"'a name' does not fit.*name=path"):
        find(str(folder))


def test_files_that_vanish_before_loading_are_a_data_error(tmp_path: Path) -> None:
    """A file removed between finding and loading is named."""
    source = find(str(touch(tmp_path / "g")))
    (source.path / "adj.npz").unlink()
    with pytest.raises(DataError, match=r"dataset g: .* lacks adj\.npz"):
        load(source)


def test_a_split_and_a_type_of_edges_are_named_behind_the_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In case ids too; a path is made absolute with it; one that has a # in its name stays."""
    (tmp_path / "own.pt").touch()
    source = find(f"{tmp_path}/own.pt#3")
    assert (source.name, source.selection) == ("own.3", Selection(3))
    assert find(f"mine={tmp_path}/own.pt#3").name == "mine"
    assert find(source.given).selection == Selection(3)
    assert anchored("own.pt#3", tmp_path) == f"{tmp_path}/own.pt#3"
    assert anchored("pkg.module:data#2", tmp_path) == "pkg.module:data#2"
    (tmp_path / "own.pt#4").mkdir()
    assert split_off_selection(f"{tmp_path}/own.pt#4")[1] == Selection()
    typed = find(f"{tmp_path}/own.pt#3#type0")
    assert (typed.name, typed.selection) == ("own.3.type0", Selection(3, 0))
    assert find(f"mine={tmp_path}/own.pt#type12").selection == Selection(0, 12)
    assert anchored("own.pt#type12", tmp_path) == f"{tmp_path}/own.pt#type12"
    for wrong in ("own.pt#0", "pkg.module:data#type", "pkg.module:data#type1#3"):
        with pytest.raises(UsageError, match="selects nothing; give #3 for the third"):
            find(wrong)
    folder = tmp_path / "a#b"
    folder.mkdir()
    (folder / "own.pt").touch()
    assert find(f"m={folder}/own.pt#type1").selection == Selection(0, 1)
    with pytest.raises(UsageError, match="there is no"):
        find(f"{folder}/missing.pt")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "x#1").mkdir()
    assert split_off_selection("m=~/x#1")[1] == Selection()
    with pytest.raises(UsageError, match="#2 selects a split or a type of edges"):
        find("synthetic-cora#2")
