"""Files of `torch.save` are read as what they contain or refused; nothing in them is run."""

from __future__ import annotations

import io
import os
import pickle
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sources import read_with
from torch.serialization import get_safe_globals
from torch_geometric.data import Batch, Data, HeteroData

from grb_check.datasets import Places, find, load_graph_set
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.formats.pt_file import PT_FILE
from grb_check.datasets.reading.pyg_graph import dataset_of_graph, of_one_node_type
from grb_check.datasets.source import DataChange
from grb_check.errors import DataError

NUM_NODES = 30


def graph(**changes: Any) -> Data:
    """A ring of 30 nodes with 4 features, 3 classes and masks; None leaves an attribute out."""
    following = (torch.arange(NUM_NODES) + 1) % NUM_NODES
    ring = torch.stack([torch.arange(NUM_NODES), following])
    order = torch.arange(NUM_NODES)
    parts = {
        "x": torch.randn(NUM_NODES, 4, generator=torch.Generator().manual_seed(0)),
        "edge_index": torch.cat([ring, ring.flip(0)], dim=1),
        "y": order % 3,
        "train_mask": order < 10,
        "val_mask": (order >= 10) & (order < 20),
        "test_mask": order >= 20,
    }
    return Data(**{key: value for key, value in (parts | changes).items() if value is not None})


def saved(content: object, **options: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer, **options)
    return buffer.getvalue()


def members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(parts: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """An archive of these members; its checksums are right."""
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def with_pickle(content: object) -> bytes:
    """The file of a sound graph with this as its pickle: bytes, or an object to be pickled."""
    code = content if isinstance(content, bytes) else pickle.dumps(content, protocol=2)
    return packed({**members(saved(graph())), "archive/data.pkl": code})


def read(content: bytes, path: Path, split: Any = "grb") -> Dataset:
    path.write_bytes(content)
    return read_with(PT_FILE, "mine", path, split=split)


def refusal(content: bytes, path: Path) -> str:
    """The message of the error; it names the file and has one line."""
    with pytest.raises(DataError) as raised:
        read(content, path)
    message = str(raised.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mine.pt"


@pytest.mark.parametrize("split", ["grb", "given"])
def test_graph_is_the_one_that_was_saved(path: Path, split: Any) -> None:
    """The same dataset as from the object in memory; the masks are the split if that is asked."""
    torch.save(graph(), path)
    dataset = read_with(PT_FILE, "mine", path, split=split)
    expected = dataset_of_graph(graph(), name="mine", origin="", where="", split=split)
    assert expected.fingerprint() == dataset.fingerprint()
    rule = "GRB's split" if split == "grb" else "its own split"
    assert dataset.origin == f"PyG graph in {path}, {rule}"
    if split == "given":
        assert dataset.train.tolist() == list(range(10))
        assert dataset.test["full"].tolist() == list(range(20, 30))


def typed(*, edge_index: Any = None, **changed: Any) -> HeteroData:
    """The sound graph with its edges as one type and a few others as another."""
    plain, data = graph(), HeteroData()
    for key in ("x", "y", "train_mask", "val_mask", "test_mask"):
        data["n"][key] = changed.get(key, plain[key])
    data["n", "knows", "n"].edge_index = plain.edge_index if edge_index is None else edge_index
    data["n", "pays", "n"].edge_index = torch.tensor([[0, 1], [2, 3]])
    return data


def test_a_graph_of_typed_edges_is_read_as_that_of_a_function(path: Path) -> None:
    with pytest.warns(DataChange, match="0 knows, 1 pays"):
        dataset = read(saved(typed()), path)
    with pytest.warns(DataChange):
        expected = dataset_of_graph(
            of_one_node_type(typed(), ""), name="mine", origin="", where="", split="grb"
        )
    assert dataset.fingerprint() == expected.fingerprint()


class Command:
    """Pickles to a call of `os.system`, or of whatever is given."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def hostile(marker: Path) -> dict[str, bytes]:
    """Pickles that would leave a file behind if they were run."""
    run = Command(os.system, f"touch {marker}")
    inside = graph()
    inside.extra = run
    nested = graph()
    nested.extra = {"a": [(1, {"b": run})]}
    return {
        "alone": with_pickle(run),
        "attribute": saved(inside),
        "nested": saved(nested),
        "eval": saved(Command(eval, f"open({str(marker)!r}, 'w')")),
        "open": saved(Command(open, str(marker), "w")),
        "module-call": with_pickle(b"\x80\x02ctorch\nload\n(X\x01\x00\x00\x00atR."),
        "new-names": with_pickle(pickle.dumps(run, protocol=4)),
        "old-style": with_pickle(f"(S'touch {marker}'\nios\nsystem\n.".encode()),
        "not-an-archive": pickle.dumps(run),
        "old-torch": saved(inside, _use_new_zipfile_serialization=False),
    }


@pytest.mark.parametrize("name", hostile(Path("x")))
def test_nothing_in_a_file_runs(path: Path, tmp_path: Path, name: str) -> None:
    """Each is refused before any name in it is looked up; the marker was never made."""
    marker = tmp_path / "marker"
    refusal(hostile(marker)[name], path)
    assert not marker.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"x": torch.ones(3)}, "it contains a Tensor, not a Data"),
        ([graph()], "the class of each node; a graph has one class"),
        (torch.ones(3), "it contains a Tensor, not a Data"),
        (Batch.from_data_list([graph()]), "torch_geometric.data.batch"),
        (HeteroData(), "is a HeteroData with 0 types of nodes"),
        (typed(x=torch.ones(1).expand(10**6, 10**6)), "x repeats values in memory"),
        (typed(x=[1.0] * NUM_NODES), "x is a list, not a tensor"),
        (typed(edge_index=torch.ones(1, dtype=torch.int64).expand(2, 10**9)), "repeats values"),
        (graph(x=np.ones((NUM_NODES, 4))), "numpy"),
        (graph(x=torch.ones(NUM_NODES, 4, dtype=torch.complex64)), "not complex64"),
        (graph(x=[1.0] * NUM_NODES), "x is a list, not a tensor"),
        (graph(x=None), "has no x"),
        (graph(edge_index=None), "has no edge_index"),
        (graph(y=None), "has no y"),
        (graph(y=torch.arange(29)), "29 labels, but 30 nodes"),
        (graph(edge_index=torch.full((2, 3), 30)), r"outside 0 .. 29"),
        (graph(x=torch.full((NUM_NODES, 4), torch.nan)), "NaN"),
        (graph(x=torch.ones(1, 1).expand(NUM_NODES, 4)), "x repeats values in memory"),
        (graph(x=torch.ones(1).expand(10**6, 10**6)), "x repeats values in memory"),
        (graph(x=torch.sparse_coo_tensor(size=(2**40, 2**20))), "would take"),
    ],
)
def test_other_content_is_refused(path: Path, content: object, message: str) -> None:
    """Other objects, and graphs that are not for node classification."""
    assert message in refusal(saved(content), path)


def archives() -> dict[str, bytes]:
    """Files that torch does not write."""
    parts = members(saved(graph()))
    return {
        "empty": b"",
        "text": b"hello",
        "no-pickle": packed({name: part for name, part in parts.items() if "pkl" not in name}),
        "no-members": packed({}),
        "no-storage": packed({k: v for k, v in parts.items() if not k.endswith("/data/0")}),
    }


@pytest.mark.parametrize("name", archives())
def test_other_archives_are_refused(path: Path, name: str) -> None:
    """With a word on what is read."""
    assert "not a readable file of torch.save" in refusal(archives()[name], path)


def test_classes_that_others_allowed_are_refused(path: Path) -> None:
    """Classes that a user's code added to torch's safe globals are not allowed here."""
    torch.serialization.add_safe_globals([Command])
    try:
        refusal(saved(graph(extra=Command(int, 3))), path)
    finally:
        before = [safe_global for safe_global in get_safe_globals() if safe_global is not Command]
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(before)


def byte_mutants(content: bytes, rng: np.random.Generator) -> Iterator[bytes]:
    """Bytes changed, removed, repeated, or the end cut off; the checksums stay."""
    for _ in range(700):
        mutant = bytearray(content)
        for index in rng.integers(0, len(content), rng.integers(1, 4)):
            mutant[index] ^= int(rng.integers(1, 256))
        yield bytes(mutant)
    for _ in range(300):
        start, end = sorted(map(int, rng.integers(0, len(content), 2)))
        yield (content[:start] + content[end:], content[:end] + content[start:], content[:end])[
            int(rng.integers(3))
        ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::grb_check.datasets.DataNotice")
@pytest.mark.parametrize("make", [graph, typed])
def test_damaged_files_are_read_as_what_they_were_or_refused(
    path: Path, make: Callable[[], object]
) -> None:
    """Never as another graph, and with no other exception."""
    sound = saved(make())
    expected = read(sound, path).fingerprint()
    refused = 0
    for mutant in byte_mutants(sound, np.random.default_rng(0)):
        try:
            assert read(mutant, path).fingerprint() == expected
        except DataError:
            refused += 1
    assert refused > 500


def ring(size: int, y: Any, **more: Any) -> Data:
    nodes = torch.arange(size)
    return Data(edge_index=torch.stack([nodes, (nodes + 1) % size]), y=y, **more)


def rings(**more: Any) -> list[Data]:
    sizes = (4 + index % 3 for index in range(20))
    return [
        ring(size, index % 2, x=torch.full((size, 2), float(index)), **more)
        for index, size in enumerate(sizes)
    ]


@pytest.mark.filterwarnings("ignore::grb_check.datasets.DataNotice")
@pytest.mark.parametrize(
    "content",
    [
        rings(),
        rings(edge_time=torch.ones(4, 1), name="ring"),
        (rings()[:12], rings()[12:16], rings()[16:]),
        {"train": rings()[:16], "test": rings()[16:]},
        [ring(4, torch.tensor([index % 2]), num_nodes=5, split="train") for index in range(8)]
        + [ring(4, 0, num_nodes=5, split="test")],
    ],
    ids=["list", "other attributes", "three lists", "dict", "without features"],
)
def test_lists_of_graphs_are_a_set(path: Path, content: Any) -> None:
    """What is in the file is known without torch, and before it is read."""
    path.write_bytes(saved(content))
    source = find(str(path), Places(home=path.parent / "home"))
    assert source.of_graphs
    dataset = load_graph_set(source)
    is_plain = isinstance(content, list) and "split" not in content[0]
    assert dataset.own_split is not is_plain
    assert dataset.origin.startswith(f"PyG graphs in {path}")
