"""Sphinx extension: an object of the API reference without a docstring is a warning.

Fields of a dataclass are documented in the section Attributes or Args of its class.
"""

from __future__ import annotations

from sphinx.application import Sphinx
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect to autodoc."""
    app.connect("autodoc-process-docstring", complain)
    app.connect("autodoc-skip-member", skip_documented_field)
    return {"parallel_read_safe": True}


def complain(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list) -> None:
    """Warn of an object without a docstring."""
    if not any(line.strip() for line in lines):
        LOGGER.warning("%s %s has no docstring", what, name)


def skip_documented_field(
    app: Sphinx, what: str, name: str, obj: object, skip: bool, options: object
) -> bool | None:
    """Leave out attributes, which the docstring of their class describes."""
    is_field = (
        what in ("class", "exception") and not callable(obj) and not isinstance(obj, property)
    )
    return True if is_field else None
