"""Parts of two commits, of other versions, or with other weights, are not merged as one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_factory import entry, measured, record, run_record

from grb_check.__main__ import main
from grb_check.cases.case import Case
from grb_check.cases.node_ids import node_id_of
from grb_check.cli.part_differences import UNEXPLAINED, differences
from grb_check.cli.shard_records import PartRecord
from grb_check.reports.record_file import encode, read

ATTACKS = ("rnd", "fgsm", "pgd")
WEIGHTS = "0123456789abcdef"
MACHINE = {"processor": "x86_64 AVX2", "threads": "2"}


def part(
    number: int,
    *,
    weights: str = WEIGHTS,
    source: str = "s",
    model: str = "",
    node_id: str = "",
    of: int = 2,
    **environment: str,
) -> PartRecord:
    """The record of one case, of a model whose repeats have these weights."""
    case = Case("d", "easy", "injection", ATTACKS[number], model)
    outcome = measured(case, 0.1)
    repeats = [replace(x, weights=weights and weights + str(x.seed)) for x in outcome.repeats]
    outcome = replace(outcome, repeats=tuple(repeats))
    cases = [Case("d", "easy", "injection", attack, model) for attack in ATTACKS[:of]]
    planned = (
        []
        if node_id
        else [
            {"id": planned_case.id, "node_id": node_id_of(planned_case)} for planned_case in cases
        ]
    )
    shard = {"index": number + 1, "count": of, "plan": "p"}
    row = entry(case, outcome, **({"node_id": node_id} if node_id else {}))
    fields = record([row], planned=planned, shard=shard)
    fields["settings"]["models"][0]["source"] = source
    fields["environment"] |= MACHINE | environment
    return PartRecord(name=f"{number}.json", record=run_record(fields))


def written(parts: Sequence[PartRecord]) -> list[str]:
    for part_record in parts:
        Path(part_record.name).write_text(encode(part_record.record))
    return [part_file.name for part_file in parts]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the files of the tests."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"source": "t"}, "have different Python files in the package of gcn (mypkg:gcn)"),
        ({"torch": "0.1"}, "have torch 2.13.0 and 0.1"),
        ({"grb_check": "0.0.1"}, "have grb_check 0.1.0 and 0.0.1"),
        ({"weights": "f"}, f"have different weights of gcn on d for the same seed, {UNEXPLAINED}"),
    ],
)
def test_other_code_versions_or_weights_are_refused(
    change: dict[str, str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit code 4, unless they are allowed; then every report says so."""
    names = written([part(0), part(1, **change)])  # type: ignore[arg-type]
    reports = [f"--{kind}=out.{kind}" for kind in ("json", "junit", "html", "markdown")]
    assert main(["merge", *names, *reports]) == 4
    error = capsys.readouterr().err
    assert f"0.json and 1.json {told}" in error
    assert "give --allow-different" in error
    assert not Path("out.json").exists()
    assert main(["merge", *names, *reports, "--allow-different"]) == 0
    note = f"merged parts differ: 0.json and 1.json {told}"
    assert f"note: {note}" in capsys.readouterr().out
    assert read(Path("out.json")).notes == (note,)
    for kind in ("junit", "html", "markdown"):
        assert note in Path(f"out.{kind}").read_text()


@pytest.mark.slow
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "source": st.sampled_from("st"),
                "weights": st.sampled_from("ef"),
                "torch": st.sampled_from(["1", "2"]),
                "threads": st.sampled_from(["2", "4"]),
            }
        ),
        min_size=2,
        max_size=3,
    ),
    st.randoms(),
)
def test_a_difference_is_found_in_any_order(given: list[dict[str, Any]], order: Any) -> None:
    """And nothing is refused if only the machines differ, or the weights with them."""
    parts = [part(number, **options) for number, options in enumerate(given)]
    order.shuffle(parts)
    result = differences(parts)
    differ = {name for name in given[0] if len({values[name] for values in given}) > 1}
    assert bool(result) == bool(differ & {"source", "weights", "torch"})
    if differ & {"source", "torch"}:
        assert any(difference.refused for difference in result)
    if differ <= {"threads"}:
        assert not result
    if differ == {"weights", "threads"} and len(given) == 2:
        assert not any(difference.refused for difference in result)
