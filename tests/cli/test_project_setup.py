"""The files that `init` changes: what pytest reads of them afterwards, and what stays."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from grb_check.cli.project_setup import (
    Setup,
    gitignore_setup,
    ini_setup,
    repository,
    service,
    workflow_setup,
)
from grb_check.errors import UsageError
from grb_check.session.pytest_private import ini_values

VALUES = {"grb_model": "mypkg:build", "grb_model_args": "width=8, act='re#lu'"}


def make(setup: Setup) -> None:
    for change in setup.changes:
        change.path.parent.mkdir(parents=True, exist_ok=True)
        change.path.write_bytes(change.after.encode())


INI_FILES = {
    "native table": ("pyproject.toml", "[tool.pytest]\nstrict = true # why\n\n[tool.x]\na = 1\n"),
    "ini table": ("pyproject.toml", '[tool.pytest.ini_options]\naddopts = [\n  "-ra",\n]\n'),
    "spaced table": ("pyproject.toml", "[ tool . pytest . ini_options ] # own\n"),
    "table last": ("pyproject.toml", "[tool.pytest]\nstrict = true"),
    "no table": ("pyproject.toml", '[project]\nname = "a"\n# the end'),
    "windows": ("pyproject.toml", "[tool.pytest]\r\nstrict = true\r\n"),
    "pytest.ini": ("pytest.ini", "[pytest]\n; why\naddopts = -ra\n    -q\n"),
    "empty pytest.ini": ("pytest.ini", ""),
    ".pytest.ini": (".pytest.ini", "[pytest]\n"),
    "pytest.toml": ("pytest.toml", "[pytest]\nstrict = true\n"),
    "empty .pytest.toml": (".pytest.toml", ""),
    "setup.cfg": ("setup.cfg", "[metadata]\nname = a\n\n[tool:pytest]\naddopts = -ra\n[other]\n"),
    "tox.ini": ("tox.ini", "[tox]\nenvlist = py\n[pytest]\naddopts = -ra\n"),
}


@pytest.mark.parametrize(("name", "text"), INI_FILES.values(), ids=INI_FILES)
def test_the_file_that_pytest_reads_gets_the_values(tmp_path: Path, name: str, text: str) -> None:
    """All lines stay in their order, with their line ends; a second call changes nothing."""
    path = tmp_path / name
    path.write_bytes(text.encode())
    before = ini_values(path) or {}
    setup = ini_setup(tmp_path, VALUES)
    assert [each.path for each in setup.changes] == [path]
    make(setup)
    assert ini_values(path) == {**before, **VALUES}
    after = path.read_bytes().decode()
    left = iter(after.splitlines())
    assert all(line in left for line in text.splitlines())
    assert ("\r\n" in text) == ("\r\n" in after)
    assert after.count("\r\n") in (0, after.count("\n"))
    assert ini_setup(tmp_path, VALUES) == Setup()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("pytest.toml", "pytest.ini"),
        ("pytest.ini", "pyproject.toml"),
        ("pyproject.toml", "tox.ini"),
        ("tox.ini", "setup.cfg"),
    ],
)
def test_the_first_file_in_pytests_order_is_changed(
    tmp_path: Path, first: str, second: str
) -> None:
    """The other one would not be read."""
    texts = {"pyproject.toml": "[tool.pytest]\nstrict = true\n", "setup.cfg": "[tool:pytest]\n"}
    for name in (first, second):
        (tmp_path / name).write_text(texts.get(name, "[pytest]\n"))
    (change,) = ini_setup(tmp_path, VALUES).changes
    assert change.path.name == first


def test_without_a_file_pytest_toml_is_made(tmp_path: Path) -> None:
    """A pyproject.toml would make `pip install .` try to build the project."""
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\n")  # of another project
    (change,) = ini_setup(folder, VALUES).changes
    assert (change.path, change.before) == (folder / "pytest.toml", None)
    make(ini_setup(folder, VALUES))
    assert ini_values(folder / "pytest.toml") == VALUES


def test_a_value_that_is_there_is_left(tmp_path: Path) -> None:
    """With a note if it is another one."""
    (tmp_path / "pytest.ini").write_text("[pytest]\ngrb_model = other:build\n")
    setup = ini_setup(tmp_path, {"grb_model": "mypkg:build"})
    assert setup.changes == ()
    assert setup.notes == (
        "pytest.ini has grb_model = other:build already, which is left as it is",
    )
    assert ini_setup(tmp_path, {"grb_model": "other:build"}) == Setup()


@pytest.mark.parametrize(
    "text", ["tool.pytest.ini_options.addopts = '-ra'\n", "[tool]\npytest = {strict = true}\n"]
)
def test_a_table_in_another_form_is_left_to_its_owner(tmp_path: Path, text: str) -> None:
    """A second table of that name would not be TOML."""
    (tmp_path / "pyproject.toml").write_text(text)
    setup = ini_setup(tmp_path, {"grb_model": "mypkg:build"})
    assert setup.changes == ()
    assert setup.notes == (
        'pyproject.toml has a form that is not changed here; add: grb_model = "mypkg:build"',
    )


@pytest.mark.parametrize("raw", [b"[tool.pytest\n", b"[tool.pytest]\nx = '\xff'\n"])
def test_a_file_that_pytest_cannot_read_is_refused(tmp_path: Path, raw: bytes) -> None:
    """Before anything is written."""
    (tmp_path / "pyproject.toml").write_bytes(raw)
    with pytest.raises(UsageError, match="pytest's ini file cannot be read"):
        ini_setup(tmp_path, VALUES)


@given(value=st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_any_text_survives_in_toml(tmp_path_factory: pytest.TempPathFactory, value: str) -> None:
    """Quotes, backslashes and the mark of a comment too."""
    folder = tmp_path_factory.mktemp("toml")
    make(ini_setup(folder, {"grb_model_args": value}))
    assert ini_values(folder / "pytest.toml") == {"grb_model_args": value}


@pytest.mark.parametrize("text", [None, "", "a\n", "a", "a\r\nb"])
def test_git_ignores_store_and_reports(tmp_path: Path, text: str | None) -> None:
    """Once, in a repository alone."""
    assert gitignore_setup(tmp_path).changes == ()
    (tmp_path / ".git").mkdir()
    if text is not None:
        (tmp_path / ".gitignore").write_bytes(text.encode())
    make(gitignore_setup(tmp_path))
    rows = (tmp_path / ".gitignore").read_text().splitlines()
    assert rows == [*(text or "").splitlines(), ".grb_check/", "grb-report/"]
    assert gitignore_setup(tmp_path).changes == ()


@pytest.mark.parametrize("line", [".grb_check", "/.grb_check/", ".grb_check/ "])
def test_a_line_that_ignores_it_already_is_enough(tmp_path: Path, line: str) -> None:
    """In each of its spellings."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text(f"{line}\n")
    (change,) = gitignore_setup(tmp_path).changes
    assert change.after == f"{line}\ngrb-report/\n"


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://github.com/me/it.git", "github"),
        ("git@github.com:me/gitlab-copy.git", "github"),
        ("ssh://git@gitlab.example.com:2222/me/it", "gitlab"),
        ("https://user:token@gitlab.com/github/it", "gitlab"),
        ("https://codeberg.org/github/it", None),
        ("../github/it", None),
    ],
)
def test_the_service_is_that_of_the_remote(tmp_path: Path, url: str, found: str | None) -> None:
    """By its host; files of a service go before."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    subprocess.run(["git", "-C", str(tmp_path), "remote", "add", "origin", url], check=True)
    assert service(tmp_path) == found
    (tmp_path / ".gitlab-ci.yml").touch()
    assert service(tmp_path) == "gitlab"
    (tmp_path / ".github").mkdir()
    assert service(tmp_path) == "github"
    (tmp_path / "sub").mkdir()
    assert repository(tmp_path / "sub") == tmp_path


@pytest.mark.parametrize("where", ["github", "gitlab"])
@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"setup.py": "", "requirements.txt": ""}, ". grb-check"),
        ({"pyproject.toml": "[project]\nname = 'a'\n"}, ". grb-check"),
        (
            {"requirements.txt": "", "pyproject.toml": "[tool.ruff]\n"},
            "-r requirements.txt grb-check",
        ),
        ({}, "grb-check"),
    ],
)
def test_the_job_installs_the_project(
    tmp_path: Path, where: str, files: dict[str, str], words: str
) -> None:
    """As it can be installed; a file of that name is left as it is."""
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    change = workflow_setup(tmp_path, where).changes[0]  # type: ignore[arg-type]
    assert f"\n{words}\n" in re.sub("^ +", "", change.after, flags=re.MULTILINE)
    assert "@" not in change.after.replace("@v", "")
    make(workflow_setup(tmp_path, where))  # type: ignore[arg-type]
    assert workflow_setup(tmp_path, where) == Setup()  # type: ignore[arg-type]
    change.path.write_text("my own")
    again = workflow_setup(tmp_path, where)  # type: ignore[arg-type]
    assert (again.changes, len(again.notes)) == ((), 1)
    assert "is left as it is" in again.notes[0]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, "include:\n  - local: .gitlab/robustness.yml\n"),
        ("stages: [test]", "stages: [test]\ninclude:\n  - local: .gitlab/robustness.yml\n"),
    ],
)
def test_gitlab_includes_the_job(tmp_path: Path, before: str | None, after: str) -> None:
    """The pipeline keeps all of its lines."""
    if before is not None:
        (tmp_path / ".gitlab-ci.yml").write_text(before)
    make(workflow_setup(tmp_path, "gitlab"))
    assert (tmp_path / ".gitlab-ci.yml").read_text() == after


def test_an_include_is_left_to_its_owner(tmp_path: Path) -> None:
    """It may be a list or a text."""
    (tmp_path / ".gitlab-ci.yml").write_text("include: other.yml\n")
    setup = workflow_setup(tmp_path, "gitlab")
    assert [each.path.name for each in setup.changes] == ["robustness.yml"]
    assert setup.notes == (
        ".gitlab-ci.yml has an include already; add '- local: .gitlab/robustness.yml' to it",
    )


@pytest.mark.parametrize(
    "text",
    [
        "stages: [build, deploy it]\n",
        "stages: [ 'build' , \"deploy it\" ]  # no test\n\nother:\n  stage: build\n",
        "stages:\n  [build,\n   deploy it\n]\ntest: {}\n",
        "image: a\nstages:\n  - build  # before test\n\n  # - test\n  - deploy it\ntest:\n  a: 1\n",
        "stages:\r\n- build\r\n\r\n- 'deploy it'\r\ntest:\r\n  stage: build\r\n",
    ],
)
def test_a_pipeline_without_the_stage_stays_valid(tmp_path: Path, text: str) -> None:
    """The job is included when there is a stage for it."""
    pipeline = tmp_path / ".gitlab-ci.yml"
    pipeline.write_bytes(text.encode())
    assert yaml.safe_load(text)["stages"] == ["build", "deploy it"]
    setup = workflow_setup(tmp_path, "gitlab")
    make(setup)
    assert setup.notes == (
        ".gitlab-ci.yml has the stages build, deploy it and not 'test', which "
        ".gitlab/robustness.yml names; add it, or name one of them there, and run init again to "
        "include the file",
    )
    assert pipeline.read_bytes().decode() == text
    job = tmp_path / ".gitlab" / "robustness.yml"
    job.write_text(job.read_text().replace("stage: test", "stage: build"))
    make(workflow_setup(tmp_path, "gitlab"))
    assert ".gitlab/robustness.yml" in pipeline.read_text()


@pytest.mark.parametrize(
    "text",
    [
        "stages: [build, test]\n",
        "stages: [build,\n  'test']\nother: {}\n",
        'stages:\n- build\n\n# last\n- "test" # why\nother: {}\n',
        "stages:\r\n  - build\r\n\r\n  - test\r\n",
        "stages: []\n",
        "stages: !reference [.all, stages]\n",
        "other:\n  stages: [build]\n",
        "other:\n  stage: build\n",
    ],
)
def test_a_pipeline_that_may_have_the_stage_includes_the_job(tmp_path: Path, text: str) -> None:
    """It may be listed elsewhere; without any list there is one."""
    (tmp_path / ".gitlab-ci.yml").write_bytes(text.encode())
    setup = workflow_setup(tmp_path, "gitlab")
    assert [each.path.name for each in setup.changes] == ["robustness.yml", ".gitlab-ci.yml"]
