"""Files of `torch.save` are read as what they contain or refused; nothing in them is run."""

from __future__ import annotations

import io
import os
import pickle
import struct
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sources import read_with
from torch.serialization import get_safe_globals
from torch_geometric.data import Batch, Data, HeteroData

from grb_check.datasets import DataNotice, Places, find, load_graph_set
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.formats.pt_file import PT_FILE
from grb_check.datasets.reading.pyg_graph import dataset_of_graph
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
        (Batch.from_data_list([graph()]), "it contains '"),
        (HeteroData(), "it contains 'torch_geometric.data.hetero_data.HeteroData'"),
        (graph(x=np.ones((NUM_NODES, 4))), "it contains 'numpy"),
        (graph(x=torch.nn.Parameter(torch.ones(NUM_NODES, 4))), "_rebuild_parameter"),
        (graph(x=torch.ones(NUM_NODES, 4, dtype=torch.complex64)), "ComplexFloatStorage"),
        (graph(x=[1.0] * NUM_NODES), "x is a list, not a tensor"),
        (graph(extra=Counter("ab")), "it contains 'collections.Counter'"),
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


@cache
def archives() -> dict[str, tuple[bytes, str]]:
    """Archives that torch does not write, with a part of the message."""
    parts = members(saved(graph()))
    deflated = packed({**parts, "archive/data/0": bytes(1 << 24)}, zipfile.ZIP_DEFLATED)
    without = {name: content for name, content in parts.items() if "pkl" not in name}
    twice = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(twice, "w") as archive:
        warnings.simplefilter("ignore")
        for name, content in [*parts.items(), ("archive/data.pkl", parts["archive/data.pkl"])]:
            archive.writestr(name, content)
    elsewhere = {f"../../{name}": content for name, content in parts.items()}
    return {
        "empty": (b"", "not a readable file of torch.save"),
        "text": (b"hello", "not a readable file of torch.save"),
        "bomb": (deflated, "its members are compressed"),
        "no-pickle": (packed(without), "data.pkl is missing"),
        "no-members": (packed({}), "not one of torch.save"),
        "two-folders": (packed({**parts, "b/data.pkl": b""}), "not one of torch.save"),
        "twice": (twice.getvalue(), "two of its members have one name"),
        "outside": (packed(elsewhere), "data.pkl is missing"),
        "no-storage": (
            packed({k: v for k, v in parts.items() if not k.endswith("/data/0")}),
            "contradicts the bytes",
        ),
        "short-storage": (packed({**parts, "archive/data/0": b"\0"}), "contradicts the bytes"),
        "long-storage": (packed({**parts, "archive/data/0": bytes(999)}), "contradicts the bytes"),
    }


@pytest.mark.parametrize("name", archives())
def test_other_archives_are_refused(path: Path, name: str) -> None:
    """Compressed, incomplete, with contradictory sizes: refused with the reason."""
    content, message = archives()[name]
    assert message in refusal(content, path)


def test_overlapping_members_are_refused(path: Path) -> None:
    """Two entries of the directory for one stored member: more bytes than the file has."""
    content = saved(graph(x=torch.zeros(NUM_NODES, 4000)))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        large = next(info for info in archive.infolist() if info.file_size > 100_000)
    start = content.rindex(b"PK\x05\x06")
    directory = struct.unpack("<I", content[start + 16 : start + 20])[0]
    at = content.index(large.filename.encode(), directory) - 46
    end = content.index(b"PK\x01\x02", at + 4)
    entry = content[at:end].replace(large.filename.encode(), large.filename[:-1].encode() + b"9")
    body = content[:start] if start > directory else content
    forged = body[:end] + entry + body[end:start] + content[start:]
    message = refusal(forged, path)
    assert "compressed" in message or "not a readable file" in message


def test_classes_that_others_allowed_are_refused(path: Path) -> None:
    """Classes that a user's code added to torch's safe globals are not allowed here."""
    torch.serialization.add_safe_globals([Command])
    try:
        refusal(saved(graph(extra=Command(int, 3))), path)
    finally:
        before = [each for each in get_safe_globals() if each is not Command]
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(before)


def byte_mutants(content: bytes, rng: np.random.Generator) -> Iterator[bytes]:
    """Bytes changed, removed, repeated, or the end cut off; the checksums stay."""
    for _ in range(700):
        mutant = bytearray(content)
        for place in rng.integers(0, len(content), rng.integers(1, 4)):
            mutant[place] ^= int(rng.integers(1, 256))
        yield bytes(mutant)
    for _ in range(300):
        start, end = sorted(map(int, rng.integers(0, len(content), 2)))
        yield (content[:start] + content[end:], content[:end] + content[start:], content[:end])[
            int(rng.integers(3))
        ]


def pickle_mutants(content: bytes, rng: np.random.Generator) -> Iterator[bytes]:
    """The same faults in the pickle alone, or sizes and orders of members; checksums are right."""
    parts = members(content)
    code = parts["archive/data.pkl"]
    for mutant in byte_mutants(code, rng):
        yield packed({**parts, "archive/data.pkl": mutant})


@pytest.mark.slow
@pytest.mark.parametrize("kind", [byte_mutants, pickle_mutants])
def test_mutants_are_read_as_what_they_say_or_refused(path: Path, kind: Any) -> None:
    """1,000 files of each kind. A file whose checksums are old gives the same graph or an error. A
    file with right ones gives what torch makes of the pickle, or an error; never another exception.
    """
    sound = saved(graph())
    sound = packed({f"archive/{k.partition('/')[2]}": v for k, v in members(sound).items()})
    expected = read(sound, path).fingerprint()
    outcomes: Counter[str] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataNotice)
        for mutant in kind(sound, np.random.default_rng(0)):
            try:
                found = read(mutant, path).fingerprint()
            except DataError:
                outcomes["refused"] += 1
                continue
            if found != expected:
                assert kind is pickle_mutants
                assert found == as_torch_reads(mutant)
                outcomes["other graph"] += 1
            else:
                outcomes["same"] += 1
    assert outcomes.total() == 1000
    assert outcomes["refused"] > 500


def as_torch_reads(content: bytes) -> str:
    """Return the fingerprint of the graph that `torch.load` returns with PyG's classes allowed."""
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    before = get_safe_globals()
    torch.serialization.add_safe_globals([Data, DataEdgeAttr, DataTensorAttr, GlobalStorage])
    try:
        loaded = torch.load(io.BytesIO(content), weights_only=True)
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(before)
    return dataset_of_graph(loaded, name="mine", origin="", where="", split="grb").fingerprint()


def ring(size: int, y: Any, **more: Any) -> Data:
    nodes = torch.arange(size)
    return Data(edge_index=torch.stack([nodes, (nodes + 1) % size]), y=y, **more)


def rings(**more: Any) -> list[Data]:
    sizes = (4 + place % 3 for place in range(20))
    return [
        ring(size, place % 2, x=torch.full((size, 2), float(place)), **more)
        for place, size in enumerate(sizes)
    ]


@pytest.mark.filterwarnings("ignore::grb_check.datasets.DataNotice")
@pytest.mark.parametrize(
    "content",
    [
        rings(),
        rings(edge_time=torch.ones(4, 1), name="ring"),
        (rings()[:12], rings()[12:16], rings()[16:]),
        {"train": rings()[:16], "test": rings()[16:]},
        [ring(4, torch.tensor([place % 2]), num_nodes=5, split="train") for place in range(8)]
        + [ring(4, 0, num_nodes=5, split="test")],
    ],
    ids=["list", "other attributes", "three lists", "dict", "without features"],
)
def test_lists_of_graphs_are_a_set(path: Path, content: Any) -> None:
    """What is in the file is known without torch, and before it is read."""
    path.write_bytes(saved(content))
    source = find(str(path), Places(home=path.parent / "home"))
    assert source.of_graphs
    made = load_graph_set(source)
    is_plain = isinstance(content, list) and "split" not in content[0]
    assert made.own_split is not is_plain
    assert made.origin.startswith(f"PyG graphs in {path}")
