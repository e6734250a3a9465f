"""The plugin of the suite conformance, beside that of grb_check."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("blocked", [("grb_check",), ("grb_check", "grb_conformance")])
def test_other_tests_run_without_grb_check(
    pytester: pytest.Pytester, blocked: tuple[str, ...]
) -> None:
    """Its hooks are then unknown; nobody calls them."""
    pytester.makepyfile("def test_unrelated(): pass")
    options = [option for name in blocked for option in ("-p", f"no:{name}")]
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", *options)
    result.assert_outcomes(passed=1)
