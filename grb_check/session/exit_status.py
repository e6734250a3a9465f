"""The exit status, if pytest's own is too good or too bad."""

from __future__ import annotations

import pytest

CODES = pytest.ExitCode


def ended_early(session: pytest.Session) -> bool:
    """Whether the session was stopped (-x, --maxfail, Ctrl-C), or pytest itself broke down."""
    usual = (CODES.OK, CODES.TESTS_FAILED, CODES.NO_TESTS_COLLECTED)
    return bool(session.shouldstop or session.shouldfail) or session.exitstatus not in usual


def settle(session: pytest.Session, *, idle: bool, inconsistent: bool, lost: bool) -> bool:
    """Set the exit status.

    A run in which a case got no verdict is neither green nor merely failed, unless it was stopped
    on purpose.

    Args:
        session: that is about to finish.
        idle: whether this part of a run has no case, which is fine.
        inconsistent: whether cases of a dataset saw different graphs.
        lost: whether a case that was to run got no verdict.

    Returns:
        Whether cases count as lost.
    """
    if idle and session.exitstatus == CODES.NO_TESTS_COLLECTED:
        session.exitstatus = CODES.OK
    if inconsistent and session.exitstatus == CODES.OK:
        session.exitstatus = CODES.TESTS_FAILED
    on_purpose = ended_early(session) and session.exitstatus != CODES.INTERNAL_ERROR
    if lost and not on_purpose:
        session.exitstatus = CODES.INTERNAL_ERROR
    return lost and not on_purpose
