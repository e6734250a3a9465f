"""Datasets are found by name or folder, without reading them; errors say what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from grb_check.datasets import Source, find, known_names, load
from grb_check.errors import DataError, UsageError

GRB = ("adj.npz", "features.npz", "labels.npz", "index.npz")
PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


def touch(folder: Path, names: tuple[str, ...] = GRB) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch()
    return folder


def test_import_is_cheap() -> None:
    """Importing the room and finding the bundled dataset load neither torch nor numpy."""
    code = (
        "import sys; from grb_check.datasets import find; find('synthetic-cora'); "
        "sys.exit(bool({'torch', 'numpy', 'scipy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_known_names_are_the_promised_ones() -> None:
    """The order is that of help texts: what needs no data first."""
    assert known_names() == (
        "synthetic-cora",
        "planetoid-cora",
        "planetoid-citeseer",
        "grb-cora",
        "grb-citeseer",
        "grb-flickr",
        "grb-reddit",
        "grb-aminer",
    )


@pytest.mark.parametrize("inside", ["grb-cora", "grb-format/grb-cora"])
def test_grb_name_is_found_in_data_folder(tmp_path: Path, inside: str) -> None:
    """`grb-x` lies in `grb-x/` or `grb-format/grb-x/` of a data folder."""
    folder = touch(tmp_path / inside)
    assert Source("grb-cora", "folder", folder) == find("grb-cora", [tmp_path / "no", tmp_path])


@pytest.mark.parametrize("above", ["", "planetoid"])
@pytest.mark.parametrize("name", ["Cora", "CiteSeer"])
def test_planetoid_name_is_found_in_pyg_root(tmp_path: Path, above: str, name: str) -> None:
    """`planetoid-cora` lies in `Cora/raw/` or `planetoid/Cora/raw/` of a data folder."""
    files = tuple(f"ind.{name.lower()}.{part}" for part in PARTS)
    folder = touch(tmp_path / above / name / "raw", files)
    spec = f"planetoid-{name.lower()}"
    assert Source(spec, "planetoid", folder) == find(spec, [tmp_path])


def test_path_is_named_after_its_folder(tmp_path: Path) -> None:
    """A path gives its base name to the dataset, with or without a slash at its end."""
    folder = touch(tmp_path / "my.graph_1")
    assert Source("my.graph_1", "folder", folder) == find(str(folder)) == find(f"{folder}/")


def test_folder_in_working_directory_needs_no_separator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of an existing folder is a path; `.` is named after the folder that it is."""
    folder = touch(tmp_path / "graph")
    monkeypatch.chdir(tmp_path)
    assert Source("graph", "folder", Path("graph")) == find("graph")
    monkeypatch.chdir(folder)
    assert find(".").name == "graph"


def test_name_can_be_given_to_a_path(tmp_path: Path) -> None:
    """`name=path` names a folder, also one whose own name contains an equals sign."""
    folder = touch(tmp_path / "odd = name")
    assert Source("mine", "folder", folder) == find(f"mine={folder}")


def test_unknown_name_is_looked_for_in_data_folders(tmp_path: Path) -> None:
    """Any four-file folder inside a data folder can be called by its name."""
    folder = touch(tmp_path / "mine")
    assert Source("mine", "folder", folder) == find("mine", [tmp_path])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("grb-flikr", r"'grb-flikr': no such name.*did you mean grb-flickr\?.*synthetic-cora"),
        ("Synthetic-Cora", r"did you mean synthetic-cora\?"),
        ("zzz", "known are synthetic-cora, planetoid-cora"),
        ("", "name=path"),
        ("two words", "name=path"),
        ("grb-cora\n", "name=path"),
        ("./no/where", "there is no folder './no/where'"),
        ("mine=", "there is no folder ''"),
        ("~no_such_user_/x", "there is no folder"),
        ("mine=x\0y", "there is no folder"),
        ("mine=" + "x" * 5000, "there is no folder"),
        ("grb-cora", "--grb-data=DIR"),
        ("planetoid-cora", "grb_data"),
    ],
)
def test_what_cannot_be_found_is_a_usage_error(spec: str, message: str) -> None:
    """Each message names what was given and what to do, in one line."""
    with pytest.raises(UsageError, match=message) as raised:
        find(spec)
    assert "\n" not in str(raised.value)


def test_folder_with_an_impossible_name_asks_for_another(tmp_path: Path) -> None:
    """A folder whose name cannot stand in a case id needs `name=path`."""
    folder = touch(tmp_path / "a name")
    with pytest.raises(UsageError, match=r"'a name' does not fit.*name=path"):
        find(str(folder))


def test_known_name_says_where_it_looked(tmp_path: Path) -> None:
    """A missing known dataset names each place, and what an incomplete one lacks."""
    touch(tmp_path / "grb-cora", GRB[:3])
    with pytest.raises(UsageError) as raised:
        find("grb-cora", [tmp_path])
    message = str(raised.value)
    assert f"{tmp_path / 'grb-cora'} (lacks index.npz)" in message
    assert f"{tmp_path / 'grb-format' / 'grb-cora'}" in message


def test_incomplete_folder_says_what_it_lacks(tmp_path: Path) -> None:
    """The folder of a path must have all four files."""
    folder = touch(tmp_path / "half", GRB[:2])
    with pytest.raises(UsageError, match=r"lacks labels\.npz, index\.npz"):
        find(str(folder))


def test_files_that_vanish_before_loading_are_a_data_error(tmp_path: Path) -> None:
    """A file removed between finding and loading is named."""
    source = find(str(touch(tmp_path / "g")))
    (source.path / "adj.npz").unlink()
    with pytest.raises(DataError, match=r"dataset g: .* lacks adj\.npz"):
        load(source)
