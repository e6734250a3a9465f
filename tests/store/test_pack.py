"""Packs: perturbations in one file, found by what they were made for."""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from grb_check import datasets
from grb_check.attacks.threat import Perturbation, Threat
from grb_check.cases.case import Case
from grb_check.cases.suites import SUITES
from grb_check.datasets.formats import bundled
from grb_check.errors import GradientError, UsageError
from grb_check.evaluation.evaluator import Evaluator
from grb_check.evaluation.harness_models import HarnessModels
from grb_check.evaluation.packed import check_pack, requests_of
from grb_check.evaluation.perturbations import on_surrogates
from grb_check.evaluation.results import facts_of
from grb_check.evaluation.store_keys import ATTACK_SEEDS
from grb_check.evaluation.surrogates import REFERENCES
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.evaluation.trial import Trial
from grb_check.files.npz_file import fixed_member
from grb_check.files.typed_json import encode
from grb_check.store.pack import (
    KIND,
    SHIPPED,
    Index,
    Packed,
    PerturbationRequest,
    lacking,
    open_pack,
    shipped_pack,
    write_pack,
)
from grb_check.store.store import Store

WANTED = PerturbationRequest(
    fingerprint="f" * 64,
    difficulty="easy",
    scenario="injection",
    attack="pgd",
    description="injection/pgd v2",
    threat="('injection', 0, 2, 4, (-1.0, 1.0), 0)",
    seed=0,
    dataset="tiny",
)
MADE = Perturbation(
    injected_x=torch.arange(6.0).reshape(2, 3),
    injected_edges=torch.tensor([[0, 1], [5, 6]]),
    modified_x=torch.empty((0, 3)),  # not as by default, though it has no element
    notes=("half of the budget is unused",),
)
GRAPH = Data(x=torch.zeros(8, 3), edge_index=torch.tensor([[0, 1], [1, 0]]))
THREAT = Threat(
    scenario="injection",
    targets=torch.arange(3),
    injected_nodes=2,
    edges_per_injected_node=4,
    feature_range=(0.0, 5.0),
)
CONTENT = [
    (WANTED, MADE),
    (replace(WANTED, seed=1), Perturbation(injected_x=torch.ones(1, 3))),
    (replace(WANTED, attack="agia"), GradientError("no gradient for links")),
]


def equal(one: Perturbation, other: Perturbation) -> bool:
    tensors = zip(one.tensors(), other.tensors(), strict=True)
    return one.notes == other.notes and all(
        (a.dtype, a.shape) == (b.dtype, b.shape) and torch.equal(a, b) for a, b in tensors
    )


def test_what_was_written_comes_back(tmp_path: Path) -> None:
    """Tensors to the bit with their types and shapes, notes, and that there is no perturbation."""
    written = write_pack(tmp_path / "a.npz", CONTENT, "free for all")
    pack = open_pack(tmp_path / "a.npz")
    assert pack.digest == written.digest
    assert list(pack.perturbations) == [shipped_request for shipped_request, _ in CONTENT]
    for request, content in CONTENT[:2]:
        assert isinstance(content, Perturbation)
        result = pack.perturbation(request, GRAPH, THREAT)
        assert result is not None
        assert equal(result, content)
        assert pack.check(request, THREAT)
    with pytest.raises(GradientError, match="no gradient for links"):
        pack.perturbation(CONTENT[2][0], GRAPH, THREAT)
    assert pack.check(CONTENT[2][0], THREAT)


def test_equal_perturbations_give_equal_bytes(tmp_path: Path) -> None:
    """Whenever they are written; one that is given twice counts once. A licence is content too."""
    for name, content in (("a", CONTENT), ("b", [*CONTENT, CONTENT[0]])):
        write_pack(tmp_path / name, content)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert write_pack(tmp_path / "c", CONTENT, "another").digest != open_pack(tmp_path / "a").digest


def test_a_perturbation_is_found_by_what_it_is_for_and_not_by_the_name_of_the_data(
    tmp_path: Path,
) -> None:
    """Any other difference is another perturbation."""
    pack = write_pack(tmp_path / "a.npz", CONTENT)
    assert pack.perturbation(replace(WANTED, dataset="another-name"), GRAPH, THREAT) is not None
    other: dict[str, object] = {"seed": 2, "difficulty": "hard", "scenario": "modification"}
    for name in ("fingerprint", "attack", "description", "threat"):
        other[name] = "other"
    for name, value in other.items():
        request = replace(WANTED, **{name: value})  # type: ignore[arg-type]
        assert not pack.check(request, THREAT)
        assert pack.perturbation(request, GRAPH, THREAT) is None


@given(st.data())
def test_no_other_byte_changes_a_perturbation(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """A file with a changed or missing byte is refused, or still gives what was written."""
    path = tmp_path_factory.mktemp("packs") / "a.npz"
    digest = write_pack(path, CONTENT).digest
    content = path.read_bytes()
    index = data.draw(st.integers(0, len(content) - 1))
    bit = 1 << data.draw(st.integers(0, 7))
    changed = content[:index] + bytes([content[index] ^ bit]) + content[index + 1 :]
    for other in (changed, content[:index]):
        path.write_bytes(other)
        try:
            pack = open_pack(path, digest)
            result = pack.perturbation(WANTED, GRAPH, THREAT)
        except UsageError:
            continue
        assert result is not None
        assert equal(result, MADE)


def npz(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    with io.BytesIO() as buffer:
        with zipfile.ZipFile(buffer, "w", compression) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "not a zip file"),
        (npz({"a.npy": b""}), "no item named 'grb_check.json'"),
        (npz({"grb_check.json": b"{}"}), "is not a pack of grb_check"),
        (npz({"grb_check.json": b"{}"}, zipfile.ZIP_DEFLATED), "is compressed, unlike"),
        (npz({"grb_check.json": b'{"kind": "pack", "format": 1, "grb_check": "0"}'}), "format 1"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, told: str) -> None:
    """With what to do."""
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=rf"a\.npz'.*{told}.*copy the file again, or make"):
        open_pack(path)


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    """Though their digest is right."""
    write_pack(tmp_path / "made.npz", CONTENT[:1])
    name, _ = zipfile.ZipFile(tmp_path / "made.npz").namelist()
    array = io.BytesIO()
    np.lib.format.write_array(array, np.array([{}], dtype=object), allow_pickle=True)
    plain = npz({"added_edges.npy": array.getvalue(), "grb_check.json": b'{"notes": []}'})
    content = plain[:-2] + b"\x40\0" + hashlib.sha256(plain).hexdigest().encode()
    packed = Packed(wanted=WANTED, digest=hashlib.sha256(content).hexdigest(), no_gradient="")
    index = Index(about="", licence="", perturbations=(packed,))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr(fixed_member(name), content)
        archive.writestr("grb_check.json", encode(KIND, index, "0"))
    with pytest.raises(UsageError, match="Object arrays cannot be loaded"):
        open_pack(tmp_path / "a.npz").perturbation(WANTED, GRAPH, THREAT)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"seed": 4}, "needs repeat 5, but it has repeats 1, 2;"),
        ({"threat": "less"}, "other budgets: .*'injection', 0, 2.* instead of less"),
        (
            {"description": "injection/pgd v3"},
            "injection/pgd v2 instead of injection/pgd v3",
        ),
        ({"fingerprint": "0" * 64}, "for other data of the name tiny, with fingerprint ffffffff"),
        ({"attack": "rnd"}, "needs tiny/easy/injection/rnd, repeat 1, but it has 3 perturbations"),
    ],
)
def test_the_error_names_the_case_and_what_the_pack_has(
    tmp_path: Path, change: dict[str, object], told: str
) -> None:
    """The nearest that it has: other repeats, budgets, versions, data or cases."""
    pack = write_pack(tmp_path / "a.npz", CONTENT)
    request = replace(WANTED, **change)  # type: ignore[arg-type]
    error = lacking(pack, {"m@tiny/easy/injection/pgd": [request, request], "another": [request]})
    with pytest.raises(UsageError, match=rf"lacks 3 perturbations that 2 cases may need.*{told}"):
        raise error


SMOKE = SUITES["smoke"]
LARGEST = 4 << 20  # bytes in the wheel


@pytest.fixture(scope="module")
def trials() -> list[Trial]:
    """Those of the suite smoke on the bundled graph."""
    evaluator, source = Evaluator(store=Store(None), device="cpu"), datasets.find(bundled.GRAPH)
    cases = [
        Case(bundled.GRAPH, level, *pair) for level in SMOKE.difficulties for pair in SMOKE.attacks
    ]
    return [evaluator.trial(source, case) for case in cases]


def test_the_first_run_makes_no_black_box_perturbation(
    trials: list[Trial], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them are shipped, verified against their threats, and no surrogate is trained.

    If this fails because an attack or a model has a new version, `python -m benchmarks.shipped`
    makes them again.
    """

    def no_surrogate(_: HarnessModels, kind: str) -> TrainedModel:
        raise AssertionError(f"surrogate {kind} is trained")

    monkeypatch.setattr(HarnessModels, "surrogate", no_surrogate)
    check_pack(shipped_pack(), trials)
    for trial in trials:
        for request in requests_of(trial).values():
            assert on_surrogates(request)[1]
    assert SHIPPED.stat().st_size < LARGEST


def test_references_of_the_first_run_are_shipped(trials: list[Trial]) -> None:
    """Twenty trainings of each, and the most robust model of the leaderboard.

    Not for a run from a pack, whose perturbations are others. If a model, an attack or the protocol
    has a new version, `python -m benchmarks.shipped references` measures them again.
    """
    for trial in trials:
        references = facts_of(trial).shipped
        assert set(references) > set(REFERENCES), trial.case.id
        assert len(references) == len(REFERENCES) + 1
        assert {len(references[kind].attacked) for kind in REFERENCES} == {20}
        if "injection" in trial.case.scenario:
            assert references["mlp"].attacked == references["mlp"].clean
        packed = HarnessModels(
            trial.harness.dataset,
            trial.harness.fingerprint,
            Store(None),
            trial.harness.device,
            pack=shipped_pack(),
        )
        assert facts_of(replace(trial, harness=packed)).shipped == {}


def test_repeats_share_five_perturbations(trials: list[Trial]) -> None:
    """Repeat r has that of the seed r mod 5."""
    trial = trials[0]
    first, sixth, second = (
        on_surrogates(Trial(trial.harness, trial.attack, trial.threat, trial.case, seed))[0]
        for seed in (0, ATTACK_SEEDS, 1)
    )
    assert all(map(torch.equal, first.tensors(), sixth.tensors()))
    assert not all(map(torch.equal, first.tensors(), second.tensors()))
