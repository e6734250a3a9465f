"""The project's own CI: what its workflows call exists, and one place has each version."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ci_steps import ACTION, ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
PROJECT = (ROOT / "pyproject.toml").read_text("utf-8")


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(path.read_text("utf-8"))["jobs"]
    return found


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in jobs(path).values() for step in job.get("steps", [])]


def test_there_are_workflows() -> None:
    assert [path.name for path in WORKFLOWS] == ["ci.yml", "release.yml"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_target_of_make_exists(path: Path) -> None:
    called = {
        word
        for step in steps(path)
        for word in re.findall(r"^make ([a-z-]+)", step.get("run", ""), re.MULTILINE)
    }
    for job in jobs(path).values():
        called |= {*job.get("strategy", {}).get("matrix", {}).get("target", [])}
    assert called
    assert called <= TARGETS


@pytest.mark.parametrize("path", [ACTION, *WORKFLOWS], ids=lambda path: path.stem)
def test_an_action_of_others_is_pinned_to_the_same_commit_everywhere(path: Path) -> None:
    """With the version beside it, which dependabot keeps."""
    uses = re.findall(r"uses: (actions/\S+)@(\S+)  # (\S+)", path.read_text("utf-8"))
    assert len(uses) == path.read_text("utf-8").count("uses: actions/")
    every = "".join(file.read_text("utf-8") for file in (ACTION, *WORKFLOWS))
    for name, commit, version in uses:
        repository = "/".join(name.split("/")[:2])
        assert re.fullmatch(r"[0-9a-f]{40}", commit)
        assert re.fullmatch(r"v\d+\.\d+\.\d+", version)
        assert set(re.findall(rf"{repository}(?:/\w+)?@(\S+)", every)) == {commit}


def test_portable_tests_exist() -> None:
    words = (ROOT / ".ci" / "portable").read_text("utf-8").split()
    assert words
    assert all((ROOT / word).exists() for word in words)


def test_versions_agree() -> None:
    """Of the package, the changelog, and the file for citations."""
    version, licence = (
        re.findall(rf'^{key} = "(.+)"$', PROJECT, re.MULTILINE)[0] for key in ("version", "license")
    )
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == version
    assert citation["license"] == licence
    assert f"\n## {version}" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_what_is_run_before_a_commit_is_a_part_of_lint() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"][0]
    lint = (ROOT / "Makefile").read_text("utf-8").partition("\nlint:")[2].partition("\n\n")[0]
    for hook in hooks["hooks"]:
        assert hook["entry"].replace(".venv/bin", "$(BIN)") in lint
