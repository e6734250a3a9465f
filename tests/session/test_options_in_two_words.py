"""Paths that are words of their own, and what pytest makes of them before it knows our options."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from grb_check.errors import UsageError
from grb_check.session.options_in_two_words import refuse_options_in_two_words

INI = {"": "", "pytest.ini": "[pytest]\n"}
# The word, and the directory whose ini file pytest may find because of it.
WORDS = {
    "file inside": ("kept/b.json", "kept"),
    "directory inside": ("kept", "kept"),
    "directory of tests": ("tests", "tests"),
    "directory outside": ("../outside", "../outside"),
    "file outside": ("../outside/b.json", "../outside"),
    "absent": ("../absent/b.json", "../outside"),
}
OTHERS = (
    (),
    ("tests",),
    ("--rootdir=.",),
    ("-c", "other.ini"),
    ("-n", "2"),
    ("--grb-store", "kept"),
    ("--grb-shrink", "tests/test_own.py::test_own"),
)


@pytest.fixture
def tree(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with tests, and directories in it and beside it; without grb_check's conftest."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    project = pytester.mkdir("project")
    for name in ("kept", "tests", "../outside"):
        (project / name).mkdir()
        (project / name / "b.json").write_text("{}")
    (project / "tests" / "test_own.py").write_text("def test_own(): pass\n")
    (project / "other.ini").write_text("[pytest]\n")
    monkeypatch.chdir(project)
    return pytester


def chosen(config: pytest.Config) -> tuple[Path, Path | None, list[str]]:
    return config.rootpath, config.inipath, config.args


@pytest.mark.slow
@pytest.mark.parametrize("where", WORDS)
def test_a_word_is_refused_if_and_only_if_it_changes_what_pytest_chooses(
    tree: pytest.Pytester, where: str
) -> None:
    """Its root directory, its ini file and its arguments, as pytest itself chooses them."""
    word, directory = WORDS[where]
    refused = []
    for of_root, of_word, others in product(INI, INI, OTHERS):
        files = {Path(of_root): INI[of_root], Path(directory, of_word): INI[of_word]}
        written = [path for path, text in files.items() if text and not path.exists()]
        for path in written:
            path.write_text(files[path])
        split = tree.parseconfig(*others, "--grb-baseline", word)
        joined = [f"--grb-store={others[1]}"] if others[:1] == ("--grb-store",) else others
        same = chosen(split) == chosen(tree.parseconfig(*joined, f"--grb-baseline={word}"))
        try:
            refuse_options_in_two_words(split)
        except UsageError:
            refused.append((of_root, of_word, others))
            assert not same, refused[-1]
        else:
            assert same, (of_root, of_word, others)
        for path in written:
            path.unlink()
    assert all(not words[2] or "-c" not in words[2] for words in refused)
    assert bool(refused) == (where != "absent")


def test_arguments_in_a_file_are_arguments_too(tree: pytest.Pytester) -> None:
    """As pytest reads them, one a line."""
    Path("kept", "pytest.ini").write_text("[pytest]\n")
    Path("args.txt").write_text("--grb-data\nkept\n")
    with pytest.raises(UsageError, match=r"--grb-data kept: .*ini file instead of none; write --"):
        refuse_options_in_two_words(tree.parseconfig("@args.txt"))
