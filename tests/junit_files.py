"""Reads JUnit XML as others do: with junitparser, and by a strict schema."""

from __future__ import annotations

from pathlib import Path

import junitparser
from junitparser import xunit2
from lxml import etree

SCHEMA = Path(__file__).parent / "reports" / "strict-junit.xsd"


def complaints(text: str) -> list[str]:
    """Return the errors of a document by the strict schema; none if it is valid."""
    schema = etree.XMLSchema(etree.parse(SCHEMA))
    schema.validate(etree.fromstring(text.encode()))
    return [f"{each.line}: {each.message}" for each in schema.error_log]


def suites(text: str) -> list[junitparser.TestSuite]:
    """The suites of a document."""
    found = junitparser.JUnitXml.fromroot(etree.fromstring(text.encode()))
    return list(found) if isinstance(found, junitparser.JUnitXml) else [found]


def properties(suite: junitparser.TestSuite) -> dict[str, str]:
    """The properties of a suite."""
    return {each.name: each.value for each in suite.properties()}


def results(suite: junitparser.TestSuite) -> dict[tuple[str, str], list[str]]:
    """(classname, name) of each case -> what it came to; nothing where it passed."""
    return {
        (case.classname, case.name): [type(each).__name__ for each in case.result]
        for case in map(xunit2.TestCase.fromelem, suite)
    }
