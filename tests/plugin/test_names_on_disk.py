"""Files do not depend on the module of an attack."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from board_bench import Bench

from grb_check.attacks import registry
from grb_check.attacks.registry import load_attack
from grb_check.evaluation import repeats
from grb_check.files.npz_file import unseal
from grb_check.ranking.boards import making
from grb_check.ranking.boards.saving import save

PAIR = ("modification", "prbcd")
ARGS = (
    "--grb-only",
    "--grb-dataset=./tiny",
    "--grb-model=attacks:brittle",
    "--grb-attack=modification/prbcd+iterations=3,modification/prbcd+iterations=3+black-box",
    "--grb-difficulty=easy",
    "--grb-repeats=1",
    "--grb-min-clean=0",
    "--grb-max-drop=0",  # so that evidence is kept
    "--grb-json=run.json",
    "--grb-baseline=kept.json",
    "--grb-update-baseline",
)


def _elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack, from a copy of its module with another name and class."""
    here = Path(sys.modules[type(load_attack(*PAIR)).__module__].__file__ or "")
    copied = Path.cwd() / "moved.py"
    text = here.read_text("utf-8").replace("class ModificationPrbcd", "class Moved")
    copied.write_text(text, "utf-8")
    spec = importlib.util.spec_from_file_location("elsewhere.prbcd", copied)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "elsewhere", SimpleNamespace(prbcd=module))  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "elsewhere.prbcd", module)
    spec.loader.exec_module(module)
    moved = replace(registry.BUILT_IN[PAIR], path="elsewhere.prbcd:Moved")
    monkeypatch.setattr(registry, "BUILT_IN", {**registry.BUILT_IN, PAIR: moved})
    assert type(load_attack(*PAIR)).__module__ == "elsewhere.prbcd"


def _written(project: pytest.Pytester) -> dict[str, bytes]:
    """Return every file that a run and a leaderboard write, by its path."""
    path = project.path
    result = project.runpytest(*ARGS)
    result.assert_outcomes(failed=2)
    bench = Bench(path / "tiny", path / "home", path / "store")
    (path / "board").mkdir()
    maker = bench.maker("board_models:poor", attacks=["modification/prbcd+iterations=3"])
    save(maker.make().board, path / "board")
    found = [path / "run.json", path / "kept.json", *path.glob("board/*")]
    found += [*path.glob("store/*/*.npz"), *path.glob(".grb_check/**/*.npz")]
    made = {str(each.relative_to(path)): each.read_bytes() for each in found}
    for each in ("run.json", "kept.json"):
        (path / each).unlink()
    for each in ("store", "board", "home", ".grb_check", ".pytest_cache"):
        shutil.rmtree(path / each, ignore_errors=True)
    return made


@pytest.mark.slow
def test_an_attack_under_another_module_writes_the_same_bytes(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Store, baseline, record, evidence and leaderboard."""
    monkeypatch.setenv("GRB_CHECK_STORE", str(project.path / "store"))
    clock = SimpleNamespace(perf_counter=lambda: 0.0)
    monkeypatch.setattr(repeats, "time", clock)
    today = SimpleNamespace(now=lambda _: datetime(2030, 1, 1))
    monkeypatch.setattr(making, "datetime", today)
    before = _written(project)
    _elsewhere(monkeypatch)
    after = _written(project)
    assert sorted(before) == sorted(after)
    assert [name for name in before if before[name] != after[name]] == []
    described = {row["outcome"]["attack"] for row in json.loads(before["run.json"])["cases"]}
    attack = f"modification/prbcd v{load_attack(*PAIR).version}"
    assert described == {
        f"{attack} (iterations=3)",
        f"{attack} (iterations=3, knowledge='black-box')",
    }
    kinds = [unseal(each)[0]["kind"] for name, each in before.items() if name.endswith(".npz")]
    assert set(kinds) == {"evidence", "perturbation", "arrays", "text"}
    assert not [name for name, each in before.items() if b"ModificationPrbcd" in each]
