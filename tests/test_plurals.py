"""Numbers in messages agree with their nouns: `1 case`, `2 cases`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from outcome_factory import CASE, outcome
from record_factory import baseline, entry, file_of, record

from grb_check.__main__ import main
from grb_check.gate.limits import Gate

NOUNS = (
    "arrays attacks boards bytes cases characters classes columns datasets defences edges "
    "entries errors failures features files flips graphs groups labels layers lines links members "
    "models nodes notes numbers pairs parts queries repeats rows seconds shards sources "
    "steps targets tests times trainings units values warnings workers"
)
NOUN = rf"(?:(?:selected|test|training|injected|planned) )?(?:{NOUNS.replace(' ', '|')})\b"


@pytest.mark.parametrize("kept", [None, baseline(tests=1, unused=["x/easy/injection/pgd"])])
@pytest.mark.parametrize("gate", [Gate(max_drop=0.0), Gate(max_drop=1.0), Gate()])
def test_reports_of_one_case_have_no_plural_of_one(
    gate: Gate, kept: dict[str, Any] | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run of one case and one repeat, with one lost case and a baseline of one entry."""
    alone = outcome([(1.0, 0.0)], [(1.0, 1.0)])
    lost = "grb::synthetic-cora::test_attack[hard/injection/pgd]"
    fields = record([entry(CASE, alone, gate)], baseline=kept, missing=[lost])
    fields["settings"]["repeats"] = 1
    fields["settings"]["gate"]["max_drop"] = gate.max_drop
    path = tmp_path / "run.json"
    path.write_text(file_of(fields), "utf-8")
    files = [tmp_path / f"a.{kind}" for kind in ("html", "junit", "markdown")]
    assert main(["report", str(path), *(f"--{each.suffix[1:]}={each}" for each in files)]) == 0
    assert main(["merge", str(path)]) == (3 if kept is None else 4)
    assert main(["power", str(path)]) == 4
    told = "".join([*capsys.readouterr(), *(each.read_text("utf-8") for each in files)])
    assert "case" in told
    assert re.findall(rf"(?<![\d.,])1 {NOUN}", told) == []
