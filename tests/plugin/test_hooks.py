"""Other plugins register names, and receive the outcome of each case and the record of the run."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from plugin_names import BRITTLE

from grb_check.evaluation import repeats
from grb_check.session import ending

NAMES = """
import attacks, models

def pytest_grb_register(registry):
    registry.attack("average", "attacks:Average")
    registry.dataset("square", "models:graph")
    registry.model("poor", "attacks:brittle")
    registry.suite(
        "nightly", datasets=["square"], difficulties=["easy"], attacks=["average"], repeats=1
    )
"""
LOG = """
from pathlib import Path

LOG = Path(__file__).parent / "log.txt"

def note(*words):
    with LOG.open("a") as log:
        print(*words, file=log)

def pytest_grb_outcome(outcome, verdict, config):
    note(outcome.case.id, f"{outcome.drop:.3f}", verdict and verdict.result)

def pytest_grb_record(record, config):
    note("record", len(record.cases), len(record.missing), hasattr(config, "workerinput"))
"""
NOTHING = """
def pytest_grb_register(registry): pass
def pytest_grb_outcome(outcome, verdict, config): pass
def pytest_grb_record(record, config): pass
"""
LOOSE = ("--grb-min-clean=0", "--grb-max-drop=1")
SUITE = "datasets=['a'], difficulties=['easy'], attacks=['rnd']"
OWN_TEST = """
import pytest

@pytest.mark.grb(dataset="./tiny", difficulty="easy", attack="injection/rnd")
def test_mine(grb_outcome):
    pass
"""


def log(project: pytest.Pytester) -> list[str]:
    path = project.path / "log.txt"
    return path.read_text().splitlines() if path.exists() else []


def ids(project: pytest.Pytester, name: str) -> list[str]:
    cases = json.loads((project.path / name).read_text())["cases"]
    return [case["id"] for case in cases]


@pytest.mark.slow
def test_registered_names_are_used_as_built_in_ones(project: pytest.Pytester) -> None:
    """In options, in node ids, in markers and in lists, from a conftest.py."""
    project.makeconftest(NAMES)
    case = "square/easy/injection/average"
    model = ("--grb-model=poor", *LOOSE)
    result = project.runpytest(*model, "--grb-suite=nightly", "--grb-json=a.json", "-v")
    result.assert_outcomes(passed=1)
    node_id = "grb::square::test_attack[easy/injection/average]"
    result.stdout.fnmatch_lines([f"{node_id.replace('[', '?')[:-1]}? PASSED*", "poor on square *"])
    assert ids(project, "a.json") == [case]
    record = json.loads((project.path / "a.json").read_text())
    assert record["settings"]["suite"] == "nightly"
    assert record["settings"]["models"][0]["target"] == "attacks:brittle"
    result = project.runpytest(*model, *BRITTLE[:2], node_id, "--grb-json=b.json")
    assert ids(project, "b.json") == [case]
    project.makepyfile(test_own=OWN_TEST.replace("./tiny", "square").replace("rnd", "average"))
    project.runpytest(*model, "test_own.py", "--grb-attack=fgsm", "--grb-json=c.json", "-k", "mine")
    assert ids(project, "c.json") == [case]


@pytest.mark.slow
def test_registering_imports_nothing(project: pytest.Pytester) -> None:
    """Except for the attacks of a run, whose scenario is needed, and for a function that makes the
    dataset of a run: only its result says whether it is a graph or a set of graphs."""
    text = NAMES.replace("import attacks, models", "import sys")
    shown = "print('imported:', sorted({'attacks', 'models', 'torch'} & set(sys.modules)))"
    project.makeconftest(f"{text}\ndef pytest_sessionfinish():\n    {shown}\n")
    args = ("--grb-model=poor", "--grb-attack=rnd", "--collect-only", "-qs")
    result = project.runpytest_subprocess(*args)
    assert "imported: []" in result.stdout.str()
    result = project.runpytest_subprocess(*args, "--grb-dataset=square")
    assert "imported: ['models', 'torch']" in result.stdout.str()
    result.stdout.fnmatch_lines(["grb::square::test_attack?easy/injection/rnd?"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("attack('pgd', 'attacks:Pgd')", "attack 'pgd': the name is already a built-in one*"),
        ("attack('worst', 'a:b')", "attack 'worst': the name is already a built-in one*"),
        ("attack('a/b', 'attacks:Pgd')", "attack 'a/b': a name has up to 100 letters*"),
        ("attack(3, 'attacks:Pgd')", "attack 3: a name has up to 100 letters*"),
        ("attack('mine', attacks.Pgd())", "attack 'mine': <attacks.Pgd *> is not an import path*"),
        ("model('mine', here)", "model 'mine': 'conftest:here' may be imported from another*"),
        ("attack('mine', 'attacks.Pgd')", "attack 'mine': 'attacks.Pgd' is not an import path*"),
        ("dataset('grb-cora', 'a:b')", "dataset 'grb-cora': the name is already a built-in*"),
        ("dataset('mine', 'data/mine')", "dataset 'mine': 'data/mine' is not an import path*abs*"),
        ("model('gcn', 'a:b')", "model 'gcn': the name is already a built-in one*"),
        ("model('mine', lambda: 0)", "model 'mine': <function *> is not an import path*"),
        ("suite('smoke')", "*pytest_grb_register raised:"),
        (f"suite('smoke', {SUITE})", "suite 'smoke': the name is already a built-in one*"),
        (f"suite('s', {SUITE.replace('easy', 'east')})", "unknown difficulty 'east'*"),
        (f"suite('s', {SUITE.replace('[', '').replace(']', '')})", "suite 's': * must be a list*"),
        (f"suite('s', {SUITE.replace('rnd', '')})", "suite 's': attacks=* must be a list*"),
        (f"suite('s', {SUITE}, repeats=0)", "suite 's': repeats: 0 is not a number of repeats*"),
        ("model('a', 'b:c'), registry.model('a', 'b:d')", "model 'a': *registered by plugin *"),
        ("model('a', fail=True)", "*pytest_grb_register raised:"),
        ("nothing()", "*pytest_grb_register raised:"),
    ],
)
def test_a_name_that_is_refused_ends_the_run_and_names_the_plugin(
    project: pytest.Pytester, call: str, message: str
) -> None:
    """Before the first test, as any usage error."""
    project.makeconftest(
        f"import attacks\ndef here(): pass\ndef pytest_grb_register(registry): registry.{call}\n"
    )
    result = project.runpytest(*BRITTLE)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: plugin {project.path / 'conftest.py'}: {message}"])
    if "raised" in message:
        result.stderr.fnmatch_lines(["*conftest.py*, in pytest_grb_register"])


@pytest.mark.parametrize(
    ("call", "args", "message"),
    [
        ("attack('mine', 'attacks:Average')", ["--grb-attack=mine"], "*its own name is 'average'*"),
        ("attack('mine', 'nowhere:x')", ["--grb-attack=mine"], "*: 'nowhere:x': there is no *"),
        (
            f"suite('s', {SUITE.replace('rnd', 'x')})",
            ["--grb-suite=s"],
            "suite 's' of plugin *: unknown attack 'x'*",
        ),
        (f"suite('s', {SUITE})", ["--grb-suite=s"], "suite 's': dataset 'a': no such name*"),
    ],
)
def test_what_a_name_stands_for_is_checked_when_it_is_used(
    project: pytest.Pytester, call: str, args: list[str], message: str
) -> None:
    """Other runs are not affected."""
    project.makeconftest(f"def pytest_grb_register(registry):\n    registry.{call}\n")
    result = project.runpytest("--grb-model=attacks:brittle", *args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])
    assert project.runpytest(*BRITTLE, "--collect-only").ret == 0


@pytest.mark.slow
def test_outcomes_come_one_by_one_and_the_record_at_the_end(project: pytest.Pytester) -> None:
    """Also of a user's own test, which has no verdict; with the fixtures in force."""
    project.makeconftest(LOG)
    project.makepyfile(test_own=OWN_TEST)
    result = project.runpytest(*BRITTLE, "--grb-threshold=*/injection/rnd = 1")
    result.assert_outcomes(passed=2, failed=1)
    user_case, *built_in, record = log(project)
    assert user_case.startswith("tiny/easy/injection/rnd ")
    assert user_case.endswith(" None")
    assert [line.split()[0] for line in built_in] == [
        "tiny/easy/injection/rnd",
        "tiny/easy/modification/rnd",
    ]
    assert [line.split()[-1] for line in built_in] == ["pass", "fail"]
    assert record == "record 3 0 False"


FAILURES = {
    "raise ValueError('of theirs')": "ValueError: of theirs",
    "import sys; sys.exit(3)": "SystemExit: 3",
    "import pytest; pytest.fail('no')": "Failed: no",
    "import pytest; pytest.skip('no')": "Skipped: no",
    "raise RuntimeError('two\\nlines \\x1b')": "RuntimeError: two lines *",
}


@pytest.mark.parametrize("code", FAILURES)
def test_a_hook_that_fails_costs_neither_others_nor_the_run(
    project: pytest.Pytester, code: str
) -> None:
    """Each is one line that names the plugin, and the run is not green."""
    project.makeconftest(LOG)
    project.makepyfile(
        faulty=f"def pytest_grb_outcome(outcome): {code}\ndef pytest_grb_record(record): {code}\n"
    )
    result = project.runpytest(*BRITTLE, *LOOSE, "-p", "faulty", "--grb-json=a.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=2)
    assert len(log(project)) == 3
    assert len(ids(project, "a.json")) == 2
    result.stdout.fnmatch_lines(
        [
            f"grb: plugin faulty: pytest_grb_outcome raised 2 times: {FAILURES[code]}",
            f"grb: plugin faulty: pytest_grb_record raised 1 time: {FAILURES[code]}",
        ]
    )
    result.stderr.no_fnmatch_line("*Traceback*")


@pytest.mark.slow
def test_hooks_that_do_nothing_change_no_byte_of_the_record(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a hook that tries to change what it is given."""
    monkeypatch.setattr(repeats, "time", SimpleNamespace(perf_counter=lambda: 0.0))
    monkeypatch.setattr(ending, "now", lambda: "2026-01-01 00:00 UTC")
    args = (*BRITTLE, *LOOSE, "--grb-store=off", "--grb-json=a.json")
    written = []
    for text in ("", NOTHING):
        project.makeconftest(text)
        project.runpytest(*args).assert_outcomes(passed=2)
        written.append((project.path / "a.json").read_bytes())
    assert written[0] == written[1]
    changing = "    outcome.case.dataset = 'other'\n"
    project.makeconftest(f"def pytest_grb_outcome(outcome):\n{changing}")
    result = project.runpytest(*args)
    result.stdout.fnmatch_lines(["grb: plugin *raised 2 times: FrozenInstanceError: *'dataset'"])
    assert (project.path / "a.json").read_bytes() == written[0]
