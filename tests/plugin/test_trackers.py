"""The recipes of docs/how-to/plugins.md, run with the trackers if they are installed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from plugin_names import BRITTLE

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "plugins.md"
RUN = (*BRITTLE, "--grb-min-clean=0", "--grb-max-drop=1")


def recipe(package: str) -> str:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    (code,) = [block for block in blocks if f"import {package}\n" in block]
    return str(code)


@pytest.mark.slow
def test_mlflow_has_a_run_with_a_metric_for_each_case(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a store of files, which MLflow 3 has to be asked for."""
    mlflow = pytest.importorskip("mlflow")
    uri = (project.path / "runs").as_uri()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    project.makeconftest(recipe("mlflow"))
    result = project.runpytest_subprocess(*RUN)
    assert result.ret == 0
    (run,) = mlflow.MlflowClient(uri).search_runs(["0"])
    cases = ("tiny/easy/injection/rnd", "tiny/easy/modification/rnd")
    assert set(run.data.metrics) == {
        f"{metric}/{case}" for metric in ("drop", "attacked") for case in cases
    }
    assert 0 < run.data.metrics[f"drop/{cases[0]}"] < 1
    assert run.data.params["suite"] == "smoke"


@pytest.mark.slow
def test_weights_and_biases_has_a_run_offline(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the folder that `wandb sync` reads."""
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(project.path))
    project.makeconftest(recipe("wandb"))
    result = project.runpytest_subprocess(*RUN)
    assert result.ret == 0
    (run,) = (project.path / "wandb").glob("offline-run-*/run-*.wandb")
    assert b"tiny/easy/injection/rnd" in run.read_bytes()
