"""Datasets are found by name or path, without reading them; errors say what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from grb_check.datasets import Places, Source, anchored, find, known_names, load
from grb_check.datasets.catalogue import _not_found, find_original
from grb_check.datasets.formats.grb_files import GRB_FILES
from grb_check.datasets.formats.npz_graph import NPZ_GRAPH
from grb_check.datasets.formats.ogb import FILES, OGB, SPLIT_FILES
from grb_check.datasets.formats.own_data import OWN_DATA
from grb_check.datasets.formats.planetoid import PLANETOID
from grb_check.datasets.formats.pyg import PYG
from grb_check.datasets.formats.rebuilt import REBUILT
from grb_check.datasets.formats.tu_dataset import TU_DATASET
from grb_check.datasets.source import Format, Wanted
from grb_check.errors import DataError, UsageError

GRB = ("adj.npz", "features.npz", "labels.npz", "index.npz")
SAINT = ("adj_full.npz", "feats.npy", "class_map.json", "role.json")
HOME = Path("/nowhere/home")
PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


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


def test_known_names_are_the_promised_ones() -> None:
    """In the order of listings: datasets that need no files first."""
    assert known_names() == (
        "synthetic-cora",
        "grb-cora",
        "grb-citeseer",
        "grb-flickr",
        "grb-reddit",
        "grb-aminer",
        "planetoid-cora",
        "planetoid-citeseer",
        "planetoid-pubmed",
        "ogbn-arxiv",
    )


def at(*folders: Path, download: bool = False) -> Places:
    return Places(folders=folders, home=HOME, download=download)


def place(source: Source) -> tuple[str, Format, Path]:
    return source.name, source.format, source.path


@pytest.mark.parametrize("inside", ["grb-cora", "grb-format/grb-cora"])
def test_grb_name_is_found_in_data_folder(tmp_path: Path, inside: str) -> None:
    """`grb-x` lies in `grb-x/` or `grb-format/grb-x/` of a data directory."""
    folder = touch(tmp_path / inside)
    found = find("grb-cora", at(tmp_path / "no", tmp_path))
    assert place(found) == ("grb-cora", GRB_FILES, folder)


def test_zip_of_a_grb_name_is_found_in_data_folder(tmp_path: Path) -> None:
    """An archive called after the dataset is enough."""
    (tmp_path / "grb-cora.zip").touch()
    assert place(find("grb-cora", at(tmp_path)))[1:] == (GRB_FILES, tmp_path / "grb-cora.zip")


@pytest.mark.parametrize("above", ["", "planetoid", "pyg/Planetoid"])
@pytest.mark.parametrize("name", ["Cora", "CiteSeer", "PubMed"])
def test_planetoid_name_is_found_in_pyg_root(tmp_path: Path, above: str, name: str) -> None:
    """`planetoid-cora` lies in `Cora/raw/` below a data directory or one of its roots for PyG."""
    files = tuple(f"ind.{name.lower()}.{part}" for part in PARTS)
    folder = touch(tmp_path / above / name / "raw", files)
    spec = f"planetoid-{name.lower()}"
    assert place(find(spec, at(tmp_path))) == (spec, PLANETOID, folder)


@pytest.mark.parametrize(
    ("name", "upstream"), [("grb-flickr", "Flickr"), ("grb-reddit", "Reddit2")]
)
def test_upstream_files_are_the_second_choice(tmp_path: Path, name: str, upstream: str) -> None:
    """GRB's own files, anywhere, come before those that they were made from."""
    raw = touch(tmp_path / "one" / upstream / "raw", SAINT)
    assert place(find(name, at(tmp_path / "one"))) == (name, REBUILT, raw)
    original = touch(tmp_path / "two" / name)
    assert place(find(name, at(tmp_path / "one", tmp_path / "two"))) == (name, GRB_FILES, original)


def test_what_is_here_is_not_downloaded(tmp_path: Path) -> None:
    """Permission to download changes nothing for files, original or upstream, that are here."""
    folder = touch(tmp_path / "grb-cora")
    assert find("grb-cora", at(tmp_path, download=True)).path == folder
    raw = touch(tmp_path / "Flickr" / "raw", SAINT)
    assert find("grb-flickr", at(tmp_path, download=True)).path == raw


@pytest.mark.parametrize(
    ("name", "kind", "inside"),
    [
        ("grb-aminer", GRB_FILES, "grb-aminer"),
        ("ogbn-arxiv", OGB, "ogbn-arxiv"),
        ("planetoid-cora", PLANETOID, "pyg/Planetoid/Cora/raw"),
        ("mutag", TU_DATASET, "pyg/TUDataset/MUTAG/raw"),
    ],
    ids=["grb", "ogb", "planetoid", "tu"],
)
def test_what_is_not_here_may_be_downloaded(name: str, kind: Format, inside: str) -> None:
    """If downloads are allowed, a missing dataset is pending, with a path in the data directory."""
    source = find(name, at(download=True))
    assert place(source) == (name, kind, HOME / inside)
    assert source.pending


def test_fetch_prefers_the_original_to_rebuilding_it(tmp_path: Path) -> None:
    """Upstream files that are here do not keep `fetch` from asking for GRB's own."""
    touch(tmp_path / "Flickr" / "raw", SAINT)
    places = at(tmp_path, download=True)
    expected = ("grb-flickr", GRB_FILES, HOME / "grb-flickr")
    assert place(find_original("grb-flickr", places)) == expected
    touch(tmp_path / "grb-flickr")
    assert not find_original("grb-flickr", places).pending


def test_folders_come_before_formats(tmp_path: Path) -> None:
    """The directory that was named first wins between two datasets of one name."""
    first, second = tmp_path / "one", tmp_path / "two"
    touch(first, ("mine.npz",))
    folder = touch(second / "mine")
    assert find("mine", at(first, second)).path == first / "mine.npz"
    assert find("mine", at(second, first)).path == folder


def test_arxiv_is_found_in_the_layout_of_ogb(tmp_path: Path) -> None:
    """OGB's own package calls the directory `ogbn_arxiv`."""
    folder = tmp_path / "ogbn_arxiv"
    for name in (*FILES, *SPLIT_FILES):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    assert place(find("ogbn-arxiv", at(tmp_path))) == ("ogbn-arxiv", OGB, folder)


@pytest.mark.parametrize(
    ("spec", "name", "kind", "rest"),
    [
        ("pyg:Planetoid/PubMed", "pyg-planetoid-pubmed", PYG, "pyg:Planetoid/PubMed"),
        ("pyg:WikiCS", "pyg-wikics", PYG, "pyg:WikiCS"),
        ("wiki=pyg:WikiCS", "wiki", PYG, "pyg:WikiCS"),
        ("mypkg:data", "mypkg.data", OWN_DATA, "mypkg:data"),
        ("mypkg.sub:make.data", "mypkg.sub.make.data", OWN_DATA, "mypkg.sub:make.data"),
        ("mine=mypkg:data", "mine", OWN_DATA, "mypkg:data"),
    ],
)
def test_classes_and_functions_are_named(spec: str, name: str, kind: Format, rest: str) -> None:
    """Sources without a file get a name that can stand in a case id, or the given one."""
    source = find(spec, at())
    assert (source.name, source.format, source.spec) == (name, kind, rest)


def test_path_is_named_after_its_folder(tmp_path: Path) -> None:
    """A path gives its base name to the dataset, with or without a slash at its end."""
    folder = touch(tmp_path / "my.graph_1")
    assert (
        place(find(str(folder))) == ("my.graph_1", GRB_FILES, folder) == place(find(f"{folder}/"))
    )


@pytest.mark.parametrize(
    ("suffix", "kind"), [("zip", GRB_FILES), ("npz", NPZ_GRAPH)], ids=["zip", "npz"]
)
def test_file_is_named_after_its_stem(tmp_path: Path, suffix: str, kind: Format) -> None:
    """A zip or npz file is a dataset; in a data directory its stem is enough."""
    path = tmp_path / f"mine.{suffix}"
    path.touch()
    expected = ("mine", kind, path)
    assert expected == place(find(str(path))) == place(find("mine", at(tmp_path)))


def test_folder_in_working_directory_needs_no_separator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of an existing directory is a path; `.` is named after that directory."""
    folder = touch(tmp_path / "graph")
    monkeypatch.chdir(tmp_path)
    assert place(find("graph")) == ("graph", GRB_FILES, Path("graph"))
    monkeypatch.chdir(folder)
    assert find(".").name == "graph"


def test_name_can_be_given_to_a_path(tmp_path: Path) -> None:
    """`name=path` names a directory, also one whose own name contains an equals sign."""
    folder = touch(tmp_path / "odd = name")
    assert place(find(f"mine={folder}")) == ("mine", GRB_FILES, folder)


def test_unknown_name_is_looked_for_in_data_folders(tmp_path: Path) -> None:
    """Any four-file directory inside a data directory can be given by its name."""
    folder = touch(tmp_path / "mine")
    assert place(find("mine", at(tmp_path))) == ("mine", GRB_FILES, folder)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("synthetic-cora", "synthetic-cora"),
        ("pyg:Amazon/Computers", "pyg:Amazon/Computers"),
        ("a=pyg:Amazon/Computers", "a=pyg:Amazon/Computers"),
        ("mypkg:data", "mypkg:data"),
        ("a=mypkg:data", "a=mypkg:data"),
        ("./graph", "/base/graph"),
        ("a=graph", "a=/base/graph"),
        ("graph.zip", "/base/graph.zip"),
        ("/elsewhere/graph", "/elsewhere/graph"),
    ],
)
def test_only_paths_are_anchored(spec: str, expected: str) -> None:
    """Relative paths start at the ini file or the working directory; names stay as they are."""
    assert expected == anchored(spec, Path("/base"))


def test_set_of_graphs_is_found_and_not_taken_for_one_graph(tmp_path: Path) -> None:
    """Loading it as a single graph is a usage error that lists single graphs."""
    parts = ("A", "graph_indicator", "graph_labels", "node_labels")
    raw = touch(tmp_path / "PROTEINS" / "raw", tuple(f"PROTEINS_{part}.txt" for part in parts))
    source = find("proteins", at(tmp_path))
    assert place(source) == ("proteins", TU_DATASET, raw)
    with pytest.raises(UsageError, match="proteins is a set of graphs, but a single"):
        load(source)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("grb-flikr", r"'grb-flikr': no such name.*did you mean grb-flickr\?.*synthetic-cora"),
        ("Synthetic-Cora", r"did you mean synthetic-cora\?"),
        ("zzz", "known are synthetic-cora, grb-cora.*pyg:CLASS/NAME"),
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


def test_known_name_says_where_it_looked(tmp_path: Path) -> None:
    """The message names each place searched, and the missing files of an incomplete one."""
    touch(tmp_path / "grb-cora", GRB[:3])
    with pytest.raises(UsageError) as raised:
        find("grb-cora", at(tmp_path))
    message = str(raised.value)
    assert f"{tmp_path / 'grb-cora'} (lacks index.npz)" in message
    assert f"{tmp_path / 'grb-format' / 'grb-cora'}" in message


def test_incomplete_folder_says_what_it_lacks(tmp_path: Path) -> None:
    """A directory given by path must have all four files."""
    folder = touch(tmp_path / "half", GRB[:2])
    with pytest.raises(UsageError, match=r"lacks labels\.npz, index\.npz"):
        find(str(folder))


@pytest.mark.parametrize("known", ["synthetic-cora", "grb-cora", "mutag", "planetoid-cora"])
def test_a_name_given_to_a_directory_of_a_known_name_is_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: str
) -> None:
    """`mine=synthetic-cora` is the directory `./synthetic-cora`, never the known dataset."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="there is no directory"):
        find(f"mine={known}")
    touch(tmp_path / known)
    source = find(f"mine={known}")
    assert (source.name, source.format) == ("mine", GRB_FILES)
    assert source.path.resolve() == tmp_path / known


def test_incomplete_folder_is_taken_for_the_format_of_which_it_has_most(tmp_path: Path) -> None:
    """The message lists what that format lacks, and names every format of directories."""
    tables = Format(
        find=lambda wanted, places: (),
        read=lambda source: load(source),
        usage="a directory of tables",
        files=lambda source: {name: source.path / name for name in ("edges.csv", "nodes.csv")},
    )
    folder = touch(tmp_path / "half", ("edges.csv",))
    looked = [Source("half", each, folder) for each in (GRB_FILES, tables)]
    wanted = Wanted(asked=str(folder), name="", text=str(folder), path=folder)
    message = _not_found(wanted, Places(), looked)
    assert "lacks nodes.csv" in message
    assert message.endswith(f"give {GRB_FILES.usage} or a directory of tables")


def test_files_that_vanish_before_loading_are_a_data_error(tmp_path: Path) -> None:
    """A file removed between finding and loading is named."""
    source = find(str(touch(tmp_path / "g")))
    (source.path / "adj.npz").unlink()
    with pytest.raises(DataError, match=r"dataset g: .* lacks adj\.npz"):
        load(source)
