"""Reads JUnit XML as others do: with junitparser, and by a strict schema."""

from __future__ import annotations

from pathlib import Path

import junitparser
from junitparser import xunit2
from lxml import etree

SCHEMA = Path(__file__).parents[1] / "reports" / "strict-junit.xsd"


def complaints(text: str) -> list[str]:
    """Return the errors of a document by the strict schema; none if it is valid."""
    schema = etree.XMLSchema(etree.parse(SCHEMA))
    schema.validate(etree.fromstring(text.encode()))
    return [f"{error.line}: {error.message}" for error in schema.error_log]


def suites(text: str) -> list[junitparser.TestSuite]:
    """The suites of a document."""
    xml = junitparser.JUnitXml.fromroot(etree.fromstring(text.encode()))
    return list(xml) if isinstance(xml, junitparser.JUnitXml) else [xml]


def properties(suite: junitparser.TestSuite) -> dict[str, str]:
    """The properties of a suite."""
    return {prop.name: prop.value for prop in suite.properties()}


def results(suite: junitparser.TestSuite) -> dict[tuple[str, str], list[str]]:
    """(classname, name) of each case -> what it came to; nothing where it passed."""
    return {
        (case.classname, case.name): [type(outcome).__name__ for outcome in case.result]
        for case in map(xunit2.TestCase.fromelem, suite)
    }
