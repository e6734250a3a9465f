"""Types of new edges in whole runs: they are part of what is replayed and reduced."""

from __future__ import annotations

import json

import pytest

from grb_check.__main__ import main


@pytest.mark.slow
def test_a_case_with_types_is_replayed(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the same figures, and with fewer edges of the same types."""
    result = pytester.runpytest(
        "--grb-only",
        "--grb-model=deaf:build",
        "--grb-dataset=deaf:data",
        "--grb-difficulty=full",
        "--grb-attack=injection/pgd+iterations=20+white-box",
        "--grb-attack=modification/prbcd+iterations=10+gang=6x5",
        "--grb-repeats=1",
        "--grb-max-drop=0",
        "--grb-shrink",
        "--grb-json=run.json",
    )
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        ["*edge_type*", "note: new edges of edge_type 0, 1, by the model's answers*"]
    )
    for case in json.loads((pytester.path / "run.json").read_text())["cases"]:
        evidence = case["evidence"]
        main(["replay", str(pytester.path / evidence["artifact"])])
        assert capsys.readouterr().out.count("as recorded") == 1
        if evidence["smallest"] is not None:
            main(["replay", str(pytester.path / evidence["smallest"]["artifact"])])
            assert capsys.readouterr().out.count("as recorded") == 1
