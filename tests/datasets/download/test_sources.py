"""Tests of the list of sources."""

from __future__ import annotations

import subprocess
import sys

import pytest

from grb_check.datasets.download.sources import check_sources, named_sources, shown_url, urls_for
from grb_check.errors import UsageError

CORA = "https://cogdl-data.oss-cn-beijing.aliyuncs.com/data/grb-cora.zip"
ALL_FIVE = "https://cloud.tsinghua.edu.cn/f/21d3244b99a54a038b44/?dl=1"
ARXIV = "http://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip"


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("grb-cora", [], (CORA, ALL_FIVE)),
        ("ogbn-arxiv", [], (ARXIV,)),
        ("synthetic-cora", [], ()),
        ("grb-cora", ["https://x.org/a?dl=1"], ("https://x.org/a?dl=1",)),
        (
            "grb-cora",
            ["http://x.org:80/{name}/{name}.zip"],
            ("http://x.org:80/grb-cora/grb-cora.zip",),
        ),
        ("grb-cora", ["grb-cora=https://x.org/a?b=c"], ("https://x.org/a?b=c",)),
        ("grb-flickr", ["grb-cora=https://x.org/a"], ()),
        ("grb-cora", ["https://x.org/a", "default"], ("https://x.org/a", CORA, ALL_FIVE)),
        ("grb-cora", ["default", "https://x.org/a"], (CORA, ALL_FIVE, "https://x.org/a")),
        ("grb-cora", [CORA, "default", "default"], (CORA, ALL_FIVE)),
    ],
)
def test_a_given_list_replaces_or_extends_the_built_in_one(
    name: str, given: list[str], expected: tuple[str, ...]
) -> None:
    """Entries for other datasets are left out, {name} is filled in, and no URL comes twice."""
    assert expected == urls_for(name, given)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("ftp://x.org/a.zip", "allowed are URL, NAME=URL"),
        ("/home/me/a.zip", "allowed are"),
        ("file:///a.zip", "allowed are"),
        ("", "allowed are"),
        ("Default", "'default'"),
        ("grb-cora=default", "allowed are"),
        ("grb-cora=", "allowed are"),
        ("=https://x.org/a", "allowed are"),
        ("https://x.org/a b.zip", "allowed are"),
        ("https://", "allowed are"),
        ("https:///a.zip", "not a complete URL"),
        ("https://x.org:port/a", "not a complete URL"),
        ("https://[::1/a", "not a complete URL"),
        ("https://x.org/{dataset}.zip", "not a complete URL"),
        ("grb-coar=https://x.org/a.zip", "grb-coar is never downloaded; the datasets are grb-cora"),
    ],
)
def test_a_malformed_entry_is_named_with_the_forms_allowed(entry: str, said: str) -> None:
    """Both functions refuse it, even when the entry before it would do."""
    with pytest.raises(UsageError) as caught:
        check_sources(["default", entry])
    assert repr(entry) in str(caught.value)
    assert said in str(caught.value)
    with pytest.raises(UsageError):
        urls_for("grb-flickr", [entry])


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://me:secret@x.org:8080/a?b=c", "https://x.org:8080/a?b=c"),
        ("https://x.org/a@b", "https://x.org/a@b"),
        ("https://[::1/a", "https://[::1/a"),
    ],
)
def test_credentials_are_not_shown(url: str, expected: str) -> None:
    """Everything else of a URL is shown, and a text that is not a URL stays as it is."""
    assert expected == shown_url(url)


def test_the_list_needs_no_heavy_module() -> None:
    """Settings are checked in every run of pytest, also where no dataset is fetched."""
    code = (
        "import sys; from grb_check.datasets.download.sources import urls_for; "
        "urls_for('grb-cora');"
        "print(sorted({'torch', 'numpy', 'requests', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "text",
    [
        "https://a.org/x,y/{name}.zip, default,grb-cora=http://b.org/c.zip",
        "https://a.org/x,y/{name}.zip default  grb-cora=http://b.org/c.zip,",
    ],
)
def test_a_list_is_split_where_an_entry_begins(text: str) -> None:
    """At spaces, and at commas that are not part of a URL."""
    expected = ("https://a.org/x,y/{name}.zip", "default", "grb-cora=http://b.org/c.zip")
    assert expected == named_sources([text])
