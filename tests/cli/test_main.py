"""`python -m grb_check` on small folders; tests on real graphs are in tests/real."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from grb_check.__main__ import main
from grb_check.datasets.lock import LOCK_FILE
from grb_check.datasets.source import data_home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRB_CHECK_DATA", str(tmp_path / "home"))
    monkeypatch.delenv("GRB_CHECK_SOURCES", raising=False)
    return tmp_path / "home"


def test_datasets_tells_used_from_unused(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder is verified after it was loaded, until it changes."""
    folder = planetoid_raw(tmp_path)

    def state() -> str:
        main(["datasets", "--data", str(tmp_path)])
        out = capsys.readouterr().out
        return next(line for line in out.splitlines() if line.startswith("planetoid-cora"))

    assert state().endswith(f"in {folder}, not used yet")


def planetoid_raw(root: Path) -> Path:
    folder = root / "Cora" / "raw"
    folder.mkdir(parents=True)
    for part in ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"):
        (folder / f"ind.cora.{part}").touch()
    return folder


@pytest.mark.parametrize("dataset", ["synthetic-cora", "string:ascii_letters"])
def test_a_dataset_without_files_cannot_be_locked(
    home: Path, dataset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is recorded under any name."""
    assert main(["lock", dataset]) == 4
    assert "there are no files to record" in capsys.readouterr().err
    assert not (home / LOCK_FILE).exists()


def test_a_broken_lock_file_does_not_concern_the_bundled_dataset(home: Path) -> None:
    """It has no files that could have changed."""
    home.mkdir()
    (home / LOCK_FILE).write_text("nonsense")
    assert main(["info", "synthetic-cora"]) == 0


def test_the_advised_command_works(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It repeats the given dataset and folder: here a set of graphs in a folder with a space."""
    raw = tmp_path / "my data" / "MUTAG" / "raw"
    raw.mkdir(parents=True)
    texts = {
        "A": "1, 2\n2, 1\n3, 4\n4, 3\n",
        "graph_indicator": "1\n1\n2\n2\n",
        "graph_labels": "0\n1\n",
        "node_labels": "0\n1\n0\n1\n",
    }
    for part, text in texts.items():
        (raw / f"MUTAG_{part}.txt").write_text(text)
    command = ["info", "mutag", f"--data={tmp_path / 'my data'}", f"--into={tmp_path / 'here'}"]
    assert main(command) == 0
    (raw / "MUTAG_node_labels.txt").write_text("1\n0\n1\n0\n")
    assert main(command) == 4
    advised = capsys.readouterr().err.partition("python -m grb_check ")[2]
    assert main(shlex.split(advised)) == 0
    assert main(command) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "http://127.0.0.1/x.zip"], "a URL is not a dataset"),
        (["info", "planetoid-cora", "--data=~nobody/x"], "is not a directory"),
        (["info", "grb-coar"], "did you mean grb-cora?"),
        (["info", "grb-cora"], "python -m grb_check fetch grb-cora"),
        (["info", "synthetic-cora", "--data", "nowhere"], "--data: 'nowhere' is not a directory"),
        (["fetch", "grb-cora", "--source", "ftp://x/y.zip"], "source 'ftp://x/y.zip'"),
        (["fetch", "grb-cora", "--source", "http://127.0.0.1:9/x.zip"], "127.0.0.1"),
    ],
)
def test_wrong_input_is_one_message_without_a_traceback(
    home: Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Exit code 4, or 1 where one of several datasets may fail; stderr says what to do."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    assert main(arguments) == (1 if "http://127.0.0.1:9/x.zip" in arguments else 4)
    captured = capsys.readouterr()
    assert captured.err.startswith("grb_check: ")
    assert message in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(("name", "code"), [("nosuch", 4), ("grb-cora", 1)])
def test_a_wrong_name_is_no_failed_download(
    home: Path,
    name: str,
    code: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And nothing is fetched beside it."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    source = "http://127.0.0.1:9/x.zip"
    assert main(["fetch", "synthetic-cora", name, "--source", source]) == code
    assert ("nodes" in capsys.readouterr().out) == (code == 1)


@pytest.mark.parametrize("arguments", [[], ["fetch"], ["info"], ["nonsense"], ["info", "a", "b"]])
def test_wrong_usage_ends_with_4(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """As in pytest; argparse would end with 2."""
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    assert raised.value.code == 4
    assert "usage: python -m grb_check" in capsys.readouterr().err


def test_the_list_is_cheap() -> None:
    """Neither torch nor numpy is loaded to list the datasets."""
    code = (
        "import sys; from grb_check.__main__ import main; main(['datasets']); "
        "sys.exit(bool({'torch', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert done.returncode == 0


def test_data_home_without_a_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a user of a container without an entry in the password file, it is a temporary folder."""
    for name in ("GRB_CHECK_DATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: str(path))
    assert Path(tempfile.gettempdir()) / "grb_check" / "data" == data_home()
