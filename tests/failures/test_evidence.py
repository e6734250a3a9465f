"""Files of evidence, their limits, and the command that replays them."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutants import byte_mutants, npz_mutants
from outcome_factory import CASE, outcome
from strategies import attacked, graph_of

from grb_check import datasets
from grb_check.attacks.referee import verify
from grb_check.attacks.threat import Perturbation, Threat
from grb_check.cases.verdicts import Comparison
from grb_check.errors import BudgetError, UsageError
from grb_check.failures.evidence import (
    CaseLimits,
    Evidence,
    SavedDataset,
    SavedModel,
    SavedRepeat,
    encode,
    limits_of,
    read,
    write,
)
from grb_check.failures.record_failure import (
    FailedTest,
    replay_command,
)
from grb_check.files.npz_file import seal, unseal
from grb_check.gate.limits import Gate, judge
from grb_check.user_code.factories import parse_model_args
from grb_check.victims.subject import Subject

in_folder = settings(
    deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def evidence(*perturbations: Perturbation, **changes: object) -> Evidence:
    repeats = [
        SavedRepeat(
            seed=seed,
            clean=0.8,
            attacked=0.1 + seed / 7,
            method="black-box",
            member="",
            weights="a1b2",
            perturbation=perturbation,
        )
        for seed, perturbation in enumerate(perturbations)
    ]
    saved = Evidence(
        case=CASE,
        model=SavedModel(name="build", target="mypkg:build", args={"sizes": [1, 2], "act": "a b"}),
        data=SavedDataset(
            spec="synthetic-cora",
            split="grb",
            training="inductive",
            features="grb",
            metric=None,
            folders=("data",),
            base="here",
            fingerprint="f" * 64,
            sizes={"nodes": 3},
        ),
        limits=CaseLimits(drop=1 / 3, clean=0.1, rule="max drop"),
        message="drop 50.0% > limit 33.3%",
        device="cpu",
        repeats=tuple(repeats),
    )
    return replace(saved, **changes)  # type: ignore[arg-type]


@in_folder
@given(st.lists(attacked(), min_size=1, max_size=3))
def test_evidence_comes_back_as_it_was(tmp_path: Path, made: list) -> None:
    """Every tensor and figure is the same, to the bit."""
    original = evidence(*(perturbation for _, _, perturbation in made))
    path = tmp_path / "folder" / "kept.npz"
    write(path, original)
    result = read(path)
    assert encode(result) == encode(original)
    for before, after in zip(original.repeats, result.repeats, strict=True):
        assert (before.drop, before.perturbation.notes) == (after.drop, after.perturbation.notes)
        pairs = zip(before.perturbation.tensors(), after.perturbation.tensors(), strict=True)
        assert all(torch.equal(a, b) and a.dtype == b.dtype for a, b in pairs)
    whole = replace(result, repeats=original.repeats)
    assert whole == original
    assert (path.parent / ".gitignore").read_text() == "*\n"
    assert sorted(file.name for file in path.parent.iterdir()) == [".gitignore", "kept.npz"]


def test_arguments_of_a_model_keep_their_types(tmp_path: Path) -> None:
    """Also types that JSON lacks: a factory may distinguish a tuple from a list."""
    args = {"sizes": (64, 32), "names": {"a"}, "by_layer": {0: None}}
    write(tmp_path / "kept.npz", evidence(Perturbation(), model=SavedModel(name="m", args=args)))
    assert read(tmp_path / "kept.npz").model.args == args


def _says(shape: tuple[int, ...], kind: str = "<i8") -> bytes:
    """The head of an array, without values."""
    stream = io.BytesIO()
    about = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, about)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"0/added_edges.npy": _says((2, 10**15))}, "cannot be read: "),
        ({"0/added_edges.npy": _says((2, -1))}, "cannot be read: "),
        ({"0/added_edges.npy": _says((2, 3), "|O")}, "cannot be read: Object arrays"),
        ({"grb_check.json": b"[" * 100_000}, "cannot be read: "),
        ({}, r"cannot be read \(KeyError"),
    ],
    ids=["larger than memory", "negative", "pickle", "nested", "absent"],
)
def test_a_file_that_was_sealed_by_a_stranger_is_refused(
    tmp_path: Path, members: dict[str, bytes], words: str
) -> None:
    """Its checksum is correct, its content is not."""
    head = json.dumps(unseal(encode(evidence(Perturbation())))[0]).encode()
    _seal_as_well(tmp_path / "kept.npz", {"grb_check.json": head} | members, zipfile.ZIP_STORED)
    with pytest.raises(UsageError, match=words):
        read(tmp_path / "kept.npz")


def test_a_file_that_grows_when_it_is_read_is_refused(tmp_path: Path) -> None:
    """A kilobyte can hold a gigabyte of zeros; files of grb_check are not compressed."""
    members = {"grb_check.json": b"{}", "0/added_edges.npy": bytes(100_000)}
    _seal_as_well(tmp_path / "kept.npz", members, zipfile.ZIP_DEFLATED)
    with pytest.raises(UsageError, match="is compressed, unlike files of grb_check"):
        read(tmp_path / "kept.npz")


def _seal_as_well(path: Path, members: dict[str, bytes], compression: int) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    plain = path.read_bytes()
    digest = sha256(plain).hexdigest().encode()
    path.write_bytes(plain[:-2] + len(digest).to_bytes(2, "little") + digest)


def _in_repeat(**fields: object) -> Callable[[dict[str, Any]], None]:
    return lambda head: head["repeats"][0].update(fields)


DAMAGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "a text as seed": _in_repeat(seed="a"),
    "a negative seed": _in_repeat(seed=-5),
    "a huge seed": _in_repeat(seed=10**30),
    "a text as accuracy": _in_repeat(clean="a"),
    "an accuracy above 1": _in_repeat(attacked=1.5),
    "a number as note": _in_repeat(perturbation=[1]),
    "no number": lambda head: head["limits"].update(drop=float("nan")),
    "deep arguments": lambda head: head["model"].update(args="-" * 5000 + "1"),
    "an unknown difficulty": lambda head: head["case"].update(difficulty="brutal"),
    "an unknown scenario": lambda head: head["case"].update(scenario="zzz"),
    "a huge budget": lambda head: head["case"].update(attack="rnd+budget=1e99999999"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_head_with_a_wrong_value_is_refused(
    tmp_path: Path, damage: Callable[[dict[str, Any]], None]
) -> None:
    """Also one whose checksum is right, so that nothing is replayed as something else."""
    path = tmp_path / "evidence.npz"
    write(path, evidence(Perturbation()))
    head, arrays = unseal(path.read_bytes())
    damage(head)
    path.write_bytes(seal(head, arrays))
    with pytest.raises(UsageError, match=r"run the failed case again|JSON is malformed"):
        read(path)


def test_evidence_without_repeats_is_refused(tmp_path: Path) -> None:
    """A file without repeats has nothing to replay."""
    (tmp_path / "kept.npz").write_bytes(encode(evidence()))
    with pytest.raises(UsageError, match="it has no repeats"):
        read(tmp_path / "kept.npz")


@pytest.mark.parametrize(
    ("limits", "clean", "attacked", "wrong"),
    [
        (CaseLimits(), 0.1, 0.0, ""),
        (CaseLimits(drop=0.5), 0.8, 0.4, ""),
        (CaseLimits(drop=0.5), 0.8, 0.39, "drop 51.2% > limit 50.0%"),
        (CaseLimits(drop=0.5, clean=0.85), 0.8, 0.8, "clean accuracy 80.0% < floor 85.0%"),
        (CaseLimits(attacked=0.4), 0.8, 0.4, ""),
        (CaseLimits(attacked=0.41), 0.8, 0.4, "attacked accuracy 40.0% < 41.0% of the baseline"),
    ],
)
def test_limits_are_broken_from_the_far_side(
    limits: CaseLimits, clean: float, attacked: float, wrong: str
) -> None:
    """A figure equal to its limit keeps it; the floor comes first, as in the gate."""
    assert limits.broken(clean, attacked) == wrong


def test_limits_as_a_drop() -> None:
    """The strictest of several limits counts."""
    assert CaseLimits().as_drop(0.8) is None
    assert CaseLimits(drop=0.5, attacked=0.6).as_drop(0.8) == pytest.approx(0.25)
    assert CaseLimits(drop=0.1, attacked=0.6).as_drop(0.8) == 0.1


def test_limits_are_those_of_the_verdict() -> None:
    """Also that of the baseline, if the model is worse than the baseline."""
    failed = judge(outcome([(0.8, 0.4)], [(0.8, 0.7)]), Gate(max_drop=0.2))
    assert limits_of(failed) == CaseLimits(drop=0.2, clean=failed.floor, rule="max drop")
    assert limits_of(None) == CaseLimits()

    def attacked_limit(result: str) -> float | None:
        compared = Comparison(result=result, text="", before=0.7, after=0.6, margin=2.0)
        return limits_of(replace(failed, comparison=compared)).attacked

    assert attacked_limit("fail") == pytest.approx(0.68)
    assert attacked_limit("pass") is None


def failure(node_id: str = "grb::a", name: str = "build", case=CASE) -> FailedTest:
    source = datasets.find("synthetic-cora")
    subject = Subject("key", name, lambda: None)
    return FailedTest(
        node_id=node_id,
        subject=subject,
        source=source,
        outcome=outcome([(0.8, 0.1)], [(0.8, 0.7)], replace(CASE, model=case)),
        perturbations=(Perturbation(),),
        verdict=None,
    )


def test_the_command_can_be_pasted() -> None:
    """It is quoted for a shell, and its arguments are read back unchanged."""
    saved = evidence(Perturbation())
    folder = Path("/work")
    command = replay_command(folder / "a folder" / "x.npz", saved, folder)
    assert command == (
        "python -m grb_check replay 'a folder/x.npz' --grb-model mypkg:build --grb-model-args "
        "'sizes=[1, 2],act='\"'\"'a b'\"'\"''"
    )
    text = ",".join(f"{name}={value!r}" for name, value in saved.model.args.items())
    assert parse_model_args(text) == saved.model.args
    unnamed = replace(saved, model=SavedModel(name="fixture"))
    assert replay_command(Path("x.npz"), unnamed, folder).endswith(
        "x.npz --grb-model pkg.module:attr"
    )


EDGE = Perturbation(added_edges=torch.tensor([[0], [2]]), notes=("a reason",))
RAW = encode(evidence(EDGE, EDGE))


def found(path: Path, raw: bytes) -> Evidence | None:
    """The evidence in a file; None if it is refused in our words."""
    path.write_bytes(raw)
    try:
        return read(path)
    except UsageError:
        return None


def test_another_head_or_array_is_refused_or_still_evidence(tmp_path: Path, how_many: int) -> None:
    """Perturbations of another form are refused when they are verified, as replay does."""
    read_back = 0
    for raw in npz_mutants(RAW, how_many, seed=0):
        saved = found(tmp_path / "kept.npz", raw)
        if saved is None:
            continue
        read_back += 1
        for repeat in saved.repeats:
            assert repeat.drop <= 1.0
            _verified(repeat.perturbation)
        assert found(tmp_path / "again.npz", encode(saved)) is not None
    assert 0 < read_back < how_many


def test_changed_bytes_are_refused(tmp_path: Path, how_many: int) -> None:
    """The checksum covers all of the file."""
    for raw in byte_mutants(RAW, how_many, seed=0):
        assert raw == RAW or found(tmp_path / "kept.npz", raw) is None


def _verified(perturbation: Perturbation) -> None:
    threat = Threat(scenario="modification", targets=torch.arange(3), edge_budget=2)
    try:
        verify(perturbation, graph_of(3, [(0, 1)]), threat)
    except BudgetError:
        return
