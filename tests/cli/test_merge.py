"""The parts of a run, judged as one run."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from outcome_factory import outcome
from record_factory import ENVIRONMENT, baseline

from grb_check.__main__ import main
from grb_check.cases.case import Case
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.expected_cases import ExpectedCases
from grb_check.cases.node_ids import node_id_of
from grb_check.cases.shards import Shard, divide
from grb_check.cli.merge import merge
from grb_check.cli.shard_records import PartRecord
from grb_check.errors import UsageError
from grb_check.gate.baselines.baseline import open_baseline
from grb_check.gate.limits import Gate, judge
from grb_check.gate.thresholds import Threshold
from grb_check.ranking.comparison_models import Boards
from grb_check.reports.record import Definition, RunRecord, record_of
from grb_check.reports.record_file import encode, read
from grb_check.settings.model_specs import ModelSpec
from grb_check.settings.options import DEFAULT, OPTIONS
from grb_check.settings.raw_values import KINDS
from grb_check.settings.selecting import cases_of
from grb_check.settings.settings import DatasetSpec, RunSettings

SETTINGS = RunSettings(
    models=(
        ModelSpec(label="net", target="m:net", args="{'width': 8}"),
        ModelSpec(label="mlp", target="m:mlp"),
    ),
    suite="smoke",
    datasets=(
        DatasetSpec(name="tiny", given="tiny"),
        DatasetSpec(name="set", given="set", of_graphs=True),
    ),
    difficulties=("easy", "full"),
    attacks=(("injection", "rnd"), ("modification", "prbcd"), ("modification", "m:attr")),
    patterns=("tiny/*", "*/full/modification/prbcd"),
    repeats=2,
    gate=Gate(thresholds=(Threshold("set/*", 0.5),), max_drop=0.3, min_clean=0.1),
    device="cpu",
    origins=dict.fromkeys((option.dest for option in OPTIONS), DEFAULT),
)
CASES = cases_of(SETTINGS)


def rows_of(cases: Sequence[Case], options: RunSettings = SETTINGS) -> list[CaseRecord]:
    """The reported cases: each has a drop that depends on its place."""
    expected_cases = ExpectedCases()
    for case in cases:
        lost = CASES.index(case) % 5 / 20
        pairs = [(0.8, 0.8 - lost), (0.78, 0.74 - lost)]
        case_outcome = outcome(pairs, [(0.8, 0.7)] * 2, case, case.model)
        verdict = judge(case_outcome, options.gate)
        record = {
            "case": asdict(case),
            "outcome": case_outcome.to_dict(),
            "verdict": asdict(verdict),
        }
        expected_cases.enter(
            node_id_of(case), record, "pass" if verdict.passed else "fail", verdict.message
        )
    return expected_cases.rows


def part(
    shard: Shard | None,
    seconds: Mapping[str, float] | None = None,
    options: RunSettings = SETTINGS,
    lost: int = 0,
) -> RunRecord:
    """The record of a part that lost its first cases."""
    planned = divide(CASES, shard, seconds or {})
    rows = rows_of(planned.part[lost:], options)
    missing = [node_id_of(case) for case in planned.part[:lost]]
    return record_of(
        options.recorded,
        rows,
        missing=missing,
        run_cases=planned,
        boards=Boards(),
        baseline=None,
        environment=ENVIRONMENT,
        definitions=dict.fromkeys(["net", "mlp"], Definition(file="models.py", line=7)),
    )


def parts(count: int, **rest: Any) -> list[PartRecord]:
    return [
        PartRecord(name=f"{index}.json", record=part(Shard(index, count), **rest))
        for index in range(1, count + 1)
    ]


def changed(given: PartRecord, change: Callable[[dict[str, Any]], object]) -> PartRecord:
    return replace(given, record=edited(given.record, change))


def edited(record: RunRecord, change: Callable[[dict[str, Any]], object]) -> RunRecord:
    """The record with a change in its file."""
    fields = fields_of(record)
    change(fields)
    return msgspec.convert(fields, RunRecord)


def fields_of(record: RunRecord) -> dict[str, Any]:
    """The record as in its file."""
    return json.loads(json.dumps(msgspec.to_builtins(record)))  # type: ignore[no-any-return]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the files of the tests."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(given: Sequence[PartRecord]) -> list[str]:
    for part_record in given:
        Path(part_record.name).write_text(encode(part_record.record))
    return [part_file.name for part_file in given]


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from([1, 2, 3, 16]),
    st.dictionaries(st.sampled_from([case.id for case in CASES]), st.floats(0, 99)),
    st.randoms(),
)
def test_merged_parts_are_the_run(count: int, seconds: dict[str, float], order: Any) -> None:
    """For any division, order of the parts, and number of empty ones."""
    given = parts(count, seconds=seconds)
    order.shuffle(given)
    whole = merge(given)
    assert whole.record == part(None)
    assert (whole.record.missing, whole.absent) == ((), [])


def test_a_case_without_a_verdict_in_any_part_is_missing() -> None:
    """Lost in a part, or of a part that was not given."""
    first, second, third = parts(3)
    lost = part(Shard(3, 3), lost=2)
    whole = merge([first, replace(third, record=lost)])
    gone = [case.node_id for case in second.record.cases]
    assert list(whole.record.missing) == sorted([*lost.missing, *gone])
    assert whole.absent == ["2/3"]


def test_what_is_missing_is_an_argument_for_each_part(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 14 the second was not given, and the eleventh lost its case; nothing is judged."""
    given = parts(14)
    given[10] = replace(given[10], record=part(Shard(11, 14), lost=1))
    del given[1]
    assert main(["merge", *written(given), "--missing"]) == 0
    assert capsys.readouterr().out.split() == ["--grb-shard=2/14", "--grb-shard=11/14"]
    assert main(["merge", *written(parts(2)), "--missing"]) == 0
    assert not capsys.readouterr().out.split()


def test_a_whole_run_has_no_missing_parts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["merge", *written([PartRecord(name="run.json", record=part(None))]), "--missing"])
    assert "run.json is of a whole run" in capsys.readouterr().err


def _set(*path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(record: dict[str, Any]) -> None:
        for key in path[:-1]:
            record = record[key]
        record[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("settings", "repeats", value=9), "repeats is 2 and 9"),
        (_set("settings", "gate", "max_drop", value=0.9), "gate is .*0.3.* and .*0.9"),
        (_set("settings", "comparison_models", "zoo", value=True), "comparison_models is"),
        (_set("baseline", value=baseline()), "baseline margin is None and 2.0"),
        (_set("shard", "plan", value="0"), "were cut differently"),
        (_set("shard", value=None), "cut differently .*in 2 parts, and 14 cases in 1 part"),
        (lambda record: record["planned"].pop(), "14 cases in 2 parts, and 13 cases in 2 parts"),
    ],
)
def test_parts_of_other_runs_are_refused(
    change: Callable[[dict[str, Any]], object], message: str
) -> None:
    """The message names the file and what differs."""
    first, second = parts(2)
    with pytest.raises(UsageError, match=message) as raised:
        merge([first, changed(second, change)])
    assert "2.json" in str(raised.value)


def test_the_command_writes_and_shows_the_whole_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With pytest's exit codes: 3 for a lost case."""
    names = written(parts(3))
    assert main(["merge", *names, "--json", "all.json"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"grb merge: 3 parts, {len(CASES)} of {len(CASES)} cases\n")
    assert "net on tiny (made for tests)" in out
    assert "models on tiny/easy by weighted accuracy over 3 attacks: 1. " in out
    assert out.splitlines()[-1].strip("= ") == "14 passed"
    assert read(folder / "all.json") == part(None)
    assert main(["merge", "all.json"]) == 0
    capsys.readouterr()
    assert main(["merge", *names[1:]]) == 3
    out = capsys.readouterr().out
    assert "no verdict on 4 cases; the run cannot be green. Parts not given: 1/3" in out


def test_a_dataset_that_differs_between_parts_fails(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its cases cannot be compared."""

    def other_graph(fields: dict[str, Any]) -> None:
        fields["cases"][0]["outcome"]["dataset"] = "0" * 64

    first, second = parts(2)
    assert main(["merge", *written([first, changed(second, other_graph)])]) == 1
    assert "was a different graph" in capsys.readouterr().out


def test_wrong_input_is_4(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line on standard error names the file; nothing is written."""
    (name, _) = written(parts(2))
    (folder / "bad.json").write_text("{")
    for args, message in (
        ([name, name], "give each part once"),
        (["none.json"], "none.json"),
        (["bad.json"], "bad.json"),
        ([name, "--json", str(folder)], "--json"),
        ([name, "--update-baseline"], "needs the file to write; add --baseline FILE"),
    ):
        assert main(["merge", *args, *([] if "--json" in args else ["--html", "x.html"])]) == 4
        error = capsys.readouterr().err
        assert error.startswith("grb_check: ")
        assert message in error
        assert error.count("\n") == 1
    assert not (folder / "x.html").exists()


def test_the_baseline_is_judged_once_or_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The merge writes it, since a part lacks cases; then all cases are compared."""
    names = written(parts(2))
    baseline_path = folder / "robustness.json"
    assert (
        main(["merge", *names, "--baseline", str(baseline_path)]) == 1
    )  # a person has to commit it
    assert main(["merge", *names, "--baseline", str(baseline_path)]) == 4  # nothing was compared
    assert main(["merge", *names, "--baseline", str(baseline_path), "--update-baseline"]) == 0
    whole = open_baseline(baseline_path, 2.0, "", update=False)
    assert sorted(whole.entries) == sorted(case.id for case in CASES)
    about = baseline(path="elsewhere.json", tests=len(CASES), digest=whole.saved.digest)
    against = [changed(part_record, _set("baseline", value=about)) for part_record in parts(2)]
    names = written(against)
    capsys.readouterr()
    assert main(["merge", *names]) == 4
    assert "'elsewhere.json' that the parts were compared with is not here" in (
        capsys.readouterr().err
    )
    assert main(["merge", *names, "--baseline", str(baseline_path), "--json", "all.json"]) == 0
    judged = read(folder / "all.json").baseline
    assert judged is not None
    assert [joint.comparison.result for joint in judged.together] == ["equal"] * 8
    for what, value in (("tests", 3), ("digest", "another")):
        other = [
            changed(part_record, _set("baseline", what, value=value)) for part_record in against
        ]
        assert main(["merge", *written(other), "--baseline", str(baseline_path)]) == 4
        assert "give the same file" in capsys.readouterr().err
        if what == "digest":
            assert main(["merge", *written([other[0], against[1]])]) == 4
            assert "baseline digest is 'another' and '" in capsys.readouterr().err


TARGETS = ("new", "in new folders", "regular", "link", "dangling", "pipe", "no reader", "full")
REFUSED = ("directory", "below a file")
LOST = ("no reader", "full")


def target(folder: Path, kind: str, name: str) -> Path:
    """Make an output of that kind, and return its path."""
    path = folder / f"{name}.out"
    if kind == "in new folders":
        return folder / f"{name}-1" / "2" / "new.out"
    if kind == "regular":
        path.write_text("old")
    elif kind in ("link", "dangling"):
        path.symlink_to(f"{name}.target")
        if kind == "link":
            (folder / f"{name}.target").write_text("old")
    elif kind in ("pipe", "no reader"):
        os.mkfifo(path)
    elif kind == "full":
        path.symlink_to("/dev/full")
    elif kind == "directory":
        path.mkdir()
    elif kind == "below a file":
        path.write_text("old")
        return path / "new.out"
    return path


def reader(path: Path) -> IO[str]:
    """Open a pipe that takes a whole report while nobody reads."""
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(opened, fcntl.F_SETPIPE_SZ, 2**20)
    return open(opened, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no /dev/full")
@given(
    kinds=st.lists(st.sampled_from([*TARGETS, *REFUSED]), min_size=4, max_size=4),
    refused=st.booleans(),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_output_stands_alone(folder: Path, kinds: list[str], refused: bool) -> None:
    """What can be written is whole, no link is replaced, and the exit code says whether all was.

    What is refused is refused before anything is made.
    """
    kinds = [
        kind_of_path if refused or kind_of_path in TARGETS else "new" for kind_of_path in kinds
    ]
    record = written([PartRecord(name="run.json", record=part(None))])
    with TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "expected").mkdir()
        expected = {kind: directory / "expected" / kind for kind in KINDS}
        assert main(["merge", *record, *(f"--{k}={path}" for k, path in expected.items())]) == 0
        paths = {k: target(directory, kind, k) for k, kind in zip(KINDS, kinds, strict=True)}
        pipes = {
            k: reader(paths[k]) for k, kind in zip(KINDS, kinds, strict=True) if kind == "pipe"
        }
        before = sorted(directory.rglob("*"))
        links = {link: os.readlink(link) for link in before if link.is_symlink()}
        code = main(["merge", *record, *(f"--{k}={path}" for k, path in paths.items())])
        outputs = {}
        for k, stream in pipes.items():
            with stream:
                outputs[k] = stream.read()
        assert {link: os.readlink(link) for link in links} == links
        if set(kinds) & set(REFUSED):
            assert code == 4
            assert sorted(directory.rglob("*")) == before
            assert set(outputs.values()) <= {""}
            return
        assert code == (1 if set(kinds) & set(LOST) else 0)
        for k, kind in zip(KINDS, kinds, strict=True):
            if kind not in LOST:
                text = outputs[k] if k in outputs else paths[k].read_text(encoding="utf-8")
                assert text == expected[k].read_text(encoding="utf-8")
            if kind in ("pipe", "no reader"):
                assert paths[k].is_fifo()
