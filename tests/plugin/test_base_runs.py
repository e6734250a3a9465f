"""Runs that are compared with another revision of the same repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from grb_check.__main__ import main

ARGS = (
    "--grb-only",
    "--grb-dataset=./tiny",
    "--grb-model=own:build",
    "--grb-max-drop=1",
    "--grb-min-clean=0",
    "--grb-attack=injection/rnd",
    "--grb-difficulty=easy,hard",
    "--grb-repeats=3",
    "--grb-base=HEAD",
)
MODEL = """
import models
import torch

class Own(models.Net):
    def forward(self, x, edge_index):
        logits = super().forward(x, edge_index)
        return {}logits

build = Own
"""
WORSE = "-logits if x.shape[0] > 160 else "  # loses most of the attacked graph alone


@pytest.fixture
def repository(project: pytest.Pytester) -> pytest.Pytester:
    """A project under version control, without what git ignores: the data."""
    path = project.path
    (path / ".gitignore").write_text("tiny/\n.cache/\n.grb_check/\n__pycache__/\n*.xml\n*.json\n")
    write(path, MODEL.format(""))
    git(path, "init", "--quiet", "--initial-branch=main")
    git(path, "config", "user.email", "a@example.org")
    git(path, "config", "user.name", "A")
    commit(path)
    return project


def write(path: Path, text: str) -> None:
    (path / "own.py").write_text(text)


def git(path: Path, *words: str) -> str:
    environment = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *words], cwd=path, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def commit(path: Path) -> None:
    git(path, "add", "--all")
    git(path, "commit", "--quiet", "--message", "change")


@pytest.mark.slow
def test_the_same_files_are_measured_once(repository: pytest.Pytester) -> None:
    """The loss is exactly 0, in single cases and jointly; texts do not count."""
    (repository.path / "notes.md").write_text("x")
    result = repository.runpytest(*ARGS, "--grb-json=out.json")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["collected 2 items", "grb base: HEAD (*), the same files*"])
    result.stdout.fnmatch_lines(["*base*2 equal*"])
    record = json.loads((repository.path / "out.json").read_text())
    joint = [comparison["comparison"] for comparison in record["baseline"]["together"]]
    single = [case["verdict"]["comparison"] for case in record["cases"]]
    assert [comparison["loss"] for comparison in (*joint, *single)] == [0.0] * 4


@pytest.mark.slow
def test_a_change_for_the_worse_is_red_and_its_revert_green(repository: pytest.Pytester) -> None:
    """The base is measured once; it sees none of the working tree's files."""
    write(repository.path, MODEL.format(WORSE))
    worse = repository.runpytest(*ARGS, "--grb-margin=1")
    assert worse.ret == pytest.ExitCode.TESTS_FAILED
    worse.stdout.fnmatch_lines(["grb base: HEAD (*), 2 entries, margin 1*", "*test_baseline*"])
    commit(repository.path)
    write(repository.path, MODEL.format("") + "\n# the same again\n")
    better = repository.runpytest(*ARGS, "--grb-margin=1", "--grb-base=HEAD~1")
    better.assert_outcomes(passed=4)
    better.stdout.fnmatch_lines(["grb base: HEAD~1 (*), 2 entries from the store, *"])
    better.stdout.fnmatch_lines(["*baseline HEAD~1 (*): 2 equal"])
    again = repository.runpytest(*ARGS, "--grb-margin=1", "--grb-base=HEAD~1", "-v")
    again.assert_outcomes(passed=4)
    assert git(repository.path, "worktree", "list").count("\n") == 1


@pytest.mark.slow
def test_the_base_has_the_cases_that_node_ids_and_budgets_name(repository: pytest.Pytester) -> None:
    """Also of attacks of the user's own."""
    path = repository.path
    (path / "toys.py").write_text(ATTACK)
    commit(path)
    write(path, MODEL.format("") + "\n# as it was\n")
    args = (*ARGS, "--grb-attack=toys:Toy", "--grb-budget=0.05", "--grb-max-drop=1")
    budget = repository.runpytest(*args)
    budget.assert_outcomes(passed=6)
    budget.stdout.fnmatch_lines(["*: 4 equal"])
    one = repository.runpytest(*ARGS, "grb::tiny::test_attack[full/modification/rnd]")
    one.assert_outcomes(passed=3)
    one.stdout.fnmatch_lines(["grb base: HEAD (*), 1 entry*", "*: 1 equal"])


ATTACK = """
from grb_check.attacks.modification.rnd import ModificationRnd

class Toy(ModificationRnd):
    name = "toy"
"""


@pytest.mark.slow
def test_a_failure_is_replayed_at_the_base(
    repository: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """The perturbation that the change falls to is none for the base."""
    path = repository.path
    write(path, MODEL.format(WORSE))
    assert repository.runpytest(*ARGS, "--grb-margin=1", "--grb-repeats=6").ret == 1
    file = next((path / ".grb_check" / "evidence").glob("*.npz"))
    done = repository.run(sys.executable, "-m", "grb_check", "replay", file, "--at=HEAD")
    assert done.ret == 0
    done.stdout.fnmatch_lines(["passes: drop *"])
    assert main(["replay", str(file), "--at=nosuch"]) == 128
    assert "no such revision" in capsys.readouterr().err
    assert git(path, "worktree", "list").count("\n") == 1


@pytest.mark.slow
def test_what_is_not_there_or_fails_there_is_told(repository: pytest.Pytester) -> None:
    """A new model passes; one that failed there fails `test_baseline`, and no case."""
    path = repository.path
    (path / "new.py").write_text("from own import build\n")
    new = repository.runpytest(*ARGS, "--grb-model=new:build")
    new.assert_outcomes(passed=6)
    new.stdout.fnmatch_lines(["*: 2 equal, 2 new"])
    write(path, "def build(num_features, num_classes):\n    raise OSError('no such weights')\n")
    commit(path)
    write(path, MODEL.format(""))
    broken = repository.runpytest(*ARGS)
    broken.assert_outcomes(passed=2, failed=1)
    broken.stdout.fnmatch_lines(["own:build: no figures at HEAD (*", "*no such weights*"])


@pytest.mark.slow
def test_files_of_the_working_tree_are_refused_at_the_base(repository: pytest.Pytester) -> None:
    """As those of an installation that points to the working tree."""
    path = repository.path
    places = path / "elsewhere"
    places.mkdir()
    (places / "helper.py").write_text("scale = 1\n")
    text = f"import sys\nsys.path.append({str(places)!r})\nimport helper\n"
    write(path, text + MODEL.format(""))
    git(path, "add", "own.py")
    git(path, "commit", "--quiet", "--message", "helper is not there")
    result = repository.runpytest(*ARGS)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*helper.py would be the same at both sides*"])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--grb-base=nosuch"], "no such revision"),
        (["--grb-baseline=kept.json"], "give one of them"),
        (["--grb-update-baseline"], "give one of them"),
        (["--grb-margin=x"], "grb-margin"),
        (["--grb-base=."], "no such revision"),
        (["--grb-base="], "--grb-base was given without a value"),
    ],
)
def test_wrong_input_is_refused_before_any_work(
    repository: pytest.Pytester, args: list[str], message: str
) -> None:
    result = repository.runpytest(*ARGS, *args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stderr.str()


@pytest.mark.slow
def test_shards_compare_each_case_and_merge_all_of_them(repository: pytest.Pytester) -> None:
    """A part measures its own cases at the base; its record has them for the whole."""
    path = repository.path
    write(path, MODEL.format(WORSE))
    args = (*ARGS, "--grb-repeats=6", "--grb-margin=1")
    whole = repository.runpytest(*args, "--grb-json=whole.json")
    for index in (1, 2):
        part = repository.runpytest(*args, f"--grb-shard={index}/2", f"--grb-json={index}.json")
        part.assert_outcomes(failed=1)
        part.stdout.fnmatch_lines(["grb base: HEAD (*), 1 entry, *"])
    assert main(["merge", "1.json", "2.json", "--json=all.json"]) == whole.ret == 1
    one, other = (json.loads((path / f"{name}.json").read_text()) for name in ("whole", "all"))
    sides = [
        [
            (
                *(joint[name] for name in ("dataset", "compared", "cases", "accuracy")),
                *(joint["comparison"][name] for name in ("result", "n", "loss", "before")),
            )
            for joint in record["baseline"]["together"]
        ]
        for record in (one, other)
    ]
    assert sides[0] == sides[1]
    assert [row["verdict"] for row in one["cases"]] == [row["verdict"] for row in other["cases"]]


USER_TESTS = """
import pytest

@pytest.mark.grb(dataset="./tiny", difficulty=["easy", "hard"], attack="injection/rnd", repeats=6)
def test_gate(grb_verdict):
    assert grb_verdict.passed, grb_verdict.message

@pytest.mark.grb(dataset="./tiny", difficulty="easy", attack="injection/rnd", repeats=1)
def test_figures(grb_outcome):
    assert grb_outcome.drop <= 1
"""
FIXTURE = """
@pytest.fixture
def grb_model():
    import own
    return own.build
"""


@pytest.mark.slow
def test_own_tests_are_compared_with_the_base(repository: pytest.Pytester) -> None:
    """Those that ask for a verdict, with the model as it was; from the store, if it can be."""
    path = repository.path
    (path / "test_own.py").write_text(USER_TESTS)
    (path / "pytest.ini").write_text("[pytest]\ngrb_model = own:build\n")
    commit(path)
    write(path, MODEL.format(WORSE))
    args = ("test_own.py", "--grb-base=HEAD", "--grb-max-drop=1", "--grb-min-clean=0", "-rf")
    first = repository.runpytest(*args)
    first.assert_outcomes(passed=1, failed=2)
    first.stdout.fnmatch_lines(["baseline HEAD (*): 2 worse", "FAILED *::test_gate*"])
    again = repository.runpytest(*args, "-k", "figures or gate")
    again.assert_outcomes(passed=1, failed=2)
    alone = repository.runpytest("test_own.py", "--grb-base=HEAD", "-k", "figures")
    alone.assert_outcomes(passed=1)
    assert alone.ret == 1
    alone.stdout.fnmatch_lines(["note: nothing was compared with HEAD: *", "*so this run fails*"])
    alone.stdout.no_fnmatch_line("to make a gate of it*")
    write(path, "raise OSError('no weights')\n")
    commit(path)
    write(path, MODEL.format(""))
    broken = repository.runpytest(*args)
    broken.assert_outcomes(passed=3, failed=1)
    broken.stdout.fnmatch_lines(["own tests: no figures at HEAD (*", "*no weights*"])


@pytest.mark.slow
def test_a_model_of_a_fixture_alone_is_not_compared(repository: pytest.Pytester) -> None:
    """The base has no tests to ask for it: verdicts and a note say so, and the run is not green."""
    path = repository.path
    (path / "test_own.py").write_text(
        USER_TESTS.replace("import pytest", "import pytest" + FIXTURE)
    )
    commit(path)
    write(path, MODEL.format(WORSE))
    args = ("test_own.py", "--grb-base=HEAD", "--grb-max-drop=1", "--grb-min-clean=0")
    result = repository.runpytest(*args, "--grb-json=out.json")
    result.assert_outcomes(passed=3)
    assert result.ret == 1  # a comparison that was asked for compared nothing
    result.stdout.fnmatch_lines(["*2 cases not compared with the base: only a fixture makes*"])
    record = json.loads((path / "out.json").read_text())
    texts = [row["verdict"]["comparison"]["text"] for row in record["cases"] if row["verdict"]]
    assert len(texts) == 2
    assert all("only a fixture makes the model" in text for text in texts)


def test_an_installed_copy_of_the_package_is_refused(
    repository: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both sides would be that copy."""
    for path in (repository.path / "src", tmp_path):
        (path / "kind").mkdir(parents=True)
        (path / "kind" / "__init__.py").write_text("from own import build\n")
    commit(repository.path)
    (repository.path / "more.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    result = repository.runpytest(*ARGS, "--grb-model=kind:build")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*kind/__init__.py would be the same at both sides*"])


@pytest.mark.slow
def test_built_in_cases_of_a_fixtures_model_are_not_compared_with_the_factorys(
    repository: pytest.Pytester,
) -> None:
    """A conftest.py may override the model of all tests, which the base does not load."""
    path = repository.path
    (path / "conftest.py").write_text("import pytest\n" + FIXTURE)
    commit(path)
    write(path, MODEL.format(WORSE))
    result = repository.runpytest(*ARGS, "--grb-json=out.json")
    assert result.ret == 1
    record = json.loads((path / "out.json").read_text())
    results = [row["verdict"]["comparison"]["result"] for row in record["cases"]]
    assert results == ["new", "new"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot send SIGTERM there")
def test_a_run_that_is_stopped_at_the_base_has_its_reports(repository: pytest.Pytester) -> None:
    """Nothing is measured, all cases are missing, and a line says how to go on."""
    path = repository.path
    stopping = "import os, signal, time\nos.kill(os.getppid(), signal.SIGTERM)\ntime.sleep(60)\n"
    write(path, stopping + MODEL.format(""))
    commit(path)
    write(path, MODEL.format(""))
    result = repository.runpytest_subprocess(
        *ARGS, "--grb-json=out.json", "--grb-markdown=out.md", "--junitxml=out.xml"
    )
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["grb: stopped; the same command with --grb-resume goes on *"])
    assert len(json.loads((path / "out.json").read_text())["missing"]) == 2
    assert (path / "out.md").exists()
    assert (path / "out.xml").exists()
    assert git(path, "worktree", "list").count("\n") == 1
