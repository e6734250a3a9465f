"""The run record: what is written is read back, and nothing else is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from mutants import byte_mutants, new_digest, structural_mutants
from outcome_factory import CASE
from record_factory import entry, file_of, measured, rich, run_record

from grb_check.__main__ import main
from grb_check.cases.case_record import CaseRecord
from grb_check.errors import UsageError
from grb_check.files.typed_json import schema
from grb_check.reports.record import RunRecord
from grb_check.reports.record_file import KIND, read

SCHEMA = Path(__file__).parents[2] / "docs" / "run-record.schema.json"


def test_a_record_is_read_back(tmp_path: Path) -> None:
    """All of it, from a file with the fields of the release that wrote it."""
    path = tmp_path / "run.json"
    path.write_text(file_of(rich()), encoding="utf-8")
    assert read(path) == run_record(rich())
    assert json.loads(path.read_bytes())["summary"]["cases"][1]["drop"] == measured(CASE, 0.42).drop


def test_a_later_release_may_have_added_fields(tmp_path: Path) -> None:
    """They are ignored wherever they stand, and so is the summary for other programs."""
    file = json.loads(file_of(rich()))
    file["weather"] = "fine"
    file["settings"]["colour"] = ["red"]
    file["cases"][0]["outcome"]["repeats"][0]["victim"]["margin"] = 0.2
    file["summary"] = {"cases": []}
    path = tmp_path / "run.json"
    path.write_text(json.dumps({**file, "digest": new_digest(file, RunRecord)}))
    assert read(path) == run_record(rich())


def test_the_published_schema_is_that_of_the_code() -> None:
    """Other programs read records by it; see the message for how to write it again."""
    command = (
        "python -c 'import json; from grb_check.files.typed_json import schema; "
        "from grb_check.reports.record_file import KIND; "
        "print(json.dumps(schema(KIND), indent=1))' "
        "> docs/run-record.schema.json"
    )
    assert json.loads(SCHEMA.read_text()) == schema(KIND), command


def test_a_case_that_the_release_does_not_know_is_refused(tmp_path: Path) -> None:
    """As of a later one."""
    file = json.loads(file_of(rich()))
    file["cases"][0]["outcome"]["case"]["difficulty"] = "harder"
    path = tmp_path / "run.json"
    path.write_text(json.dumps({**file, "digest": new_digest(file, RunRecord)}))
    with pytest.raises(UsageError, match="unknown difficulty or scenario"):
        read(path)


@pytest.mark.parametrize("command", ["report", "merge"])
@pytest.mark.parametrize("kind", ["fields", "bytes"])
def test_a_damaged_record_is_refused_in_one_line_or_is_the_same(
    command: str, kind: str, how_many: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands that read records end with no other exception than ours.

    What they show is the same.
    """
    fields = rich() if command == "report" else {**rich(), "baseline": None}
    text, path, refused = file_of(fields), tmp_path / "run.json", 0
    outputs = [f"--{name}={tmp_path / name}" for name in ("html", "junit", "markdown")]
    arguments = [command, str(path), *outputs]
    path.write_text(text, encoding="utf-8")
    assert main(arguments) == {"report": 0, "merge": 3}[command]
    whole = capsys.readouterr().out
    mutants = byte_mutants(text.encode(), how_many, seed=how_many)
    if kind == "fields":
        mutants = structural_mutants(json.loads(text), how_many, how_many)
    for number, mutant in enumerate(mutants):
        path.write_bytes(mutant)
        code = main(arguments)
        shown = capsys.readouterr()
        assert code in (0, 1, 3, 4, 5), number
        assert shown.err.count("\n") == (code == 4), (number, shown.err)
        if code == 4:
            assert str(path) in shown.err, (number, shown.err)
            refused += 1
            continue
        assert shown.out == whole, number
        assert not re.search(r"\b(nan|inf)\b", shown.out), number
    assert refused > how_many / 2


def test_rows_have_what_the_run_found() -> None:
    """Outcomes and verdicts are the same."""
    outcome = measured(CASE, 0.2)
    row = msgspec.convert(entry(CASE, outcome), CaseRecord)
    assert row.outcome == outcome
    assert row.verdict is not None
    assert row.verdict.result == "pass"
