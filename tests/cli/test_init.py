"""`python -m grb_check init` in repositories, and pytest in what it wrote."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from grb_check.__main__ import main
from grb_check.cli.init import NEXT
from grb_check.files import outputs

MODEL = """
from torch_geometric.nn import GCN


def build(num_features, num_classes):
    return GCN(num_features, 8, 2, num_classes)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository on GitHub with a model, seen from a directory in it."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".github").mkdir()
    (tmp_path / "mypkg").mkdir()
    (tmp_path / "mypkg" / "models.py").write_text(MODEL)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "mypkg"\nversion = "1"\n')
    monkeypatch.chdir(tmp_path / "mypkg")
    return tmp_path


def files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(folder).parts
    }


def test_nothing_is_written_unless_asked(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A diff shows the changes; the factory was found."""
    before = files(project)
    assert main(["init"]) == 0
    assert files(project) == before
    out, err = capsys.readouterr()
    assert '+grb_model = "mypkg.models:build"\n' in out
    assert "--- /dev/null\n+++ b/.github/workflows/robustness.yml\n" in out
    assert out.endswith("nothing was written: give --write to make the changes\n")
    assert err == "note: likely factory: mypkg.models:build\n"


def test_a_second_write_changes_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever model is named then."""
    assert main(["init", "--write"]) == 0
    names = ["pyproject.toml", ".gitignore", ".github/workflows/robustness.yml"]
    out = capsys.readouterr().out.splitlines()
    assert out == [*(f"wrote {name}" for name in names), "next:", *(f"  {line}" for line in NEXT)]
    before = files(project)
    assert main(["init", "--write"]) == 0
    assert main(["init", "--write", "--model=other:build"]) == 0
    assert files(project) == before
    out, err = capsys.readouterr()
    assert out.count("nothing to change\n") == 2
    assert "pyproject.toml has grb_model = mypkg.models:build already" in err


def test_the_commands_that_it_names_work(project: Path) -> None:
    """pytest finds the model from the ini file alone."""
    assert main(["init", "--write", "--model=net=mypkg.models:build"]) == 0
    command = NEXT[0].partition("#")[0].split()
    assert command[0] == "pytest"
    ran = subprocess.run(
        [sys.executable, "-m", *command], cwd=project, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "grb::synthetic-cora::test_attack[easy/injection/rnd]" in ran.stdout
    assert "18 tests collected" in ran.stdout


def test_a_placeholder_is_shown_and_not_written(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If there is no factory, or no telling which; the candidates are named."""
    (project / "other.py").write_text("def build_other(): ...\n")
    assert main(["init"]) == 0
    out, err = capsys.readouterr()
    assert '+grb_model = "PKG.MODULE:FACTORY"\n' in out
    assert f"note: 2 likely factories in {project}; give --model\n" in err
    assert "note: likely factory: other:build_other\n" in err
    before = files(project)
    assert main(["init", "--write"]) == 4
    assert "give --model pkg.module:attr" in capsys.readouterr().err
    assert files(project) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model=build"], "--model 'build' must have the form 'pkg.module:attr'"),
        (["--model=a:b", "--model-args=width"], "--model-args"),
        (["--model="], "given without a value"),
        (["--ci=jenkins"], "invalid choice"),
    ],
)
def test_wrong_input_is_a_usage_error(
    project: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    """With the option's own name."""
    try:
        code = main(["init", *arguments])
    except SystemExit as end:
        code = int(str(end.code))
    assert code == 4
    assert words in capsys.readouterr().err


def test_the_service_may_be_named_or_left_out(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a sign of one, a note says how."""
    assert main(["init", "--ci=none"]) == 0
    assert main(["init", "--ci=gitlab"]) == 0
    out = capsys.readouterr().out
    assert "workflows" not in out
    assert out.count("+++ b/.gitlab-ci.yml") == out.count("+++ b/.gitlab/robustness.yml") == 1
    (project / ".github").rmdir()
    assert main(["init"]) == 0
    assert "--ci says which" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_told(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are written."""

    def full(path: Path, content: bytes) -> None:
        if path.name == ".gitignore":
            raise OSError(28, "No space left on device")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    monkeypatch.setattr(outputs.try_write, "__defaults__", (full,))
    assert main(["init", "--write"]) == 1
    out, err = capsys.readouterr()
    assert out == "wrote pyproject.toml\nwrote .github/workflows/robustness.yml\n"
    assert ".gitignore not written: No space left on device" in err


def test_what_is_in_the_way_is_refused_before_anything_is_written(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file in place of a directory, or a directory in place of a file."""
    (project / ".github" / "workflows").touch()
    before = files(project)
    assert main(["init", "--write"]) == 4
    assert "robustness.yml' cannot be read as text" in capsys.readouterr().err
    assert files(project) == before
