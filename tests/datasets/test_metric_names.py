"""Names of metrics, as users and records write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grb_check.datasets.metric_names import check_metric, parts_of_recall
from grb_check.errors import UsageError


@given(share=st.floats(1e-6, 0.999), positive=st.none() | st.integers(0, 99))
def test_a_recall_is_written_and_read_again(share: float, positive: int | None) -> None:
    """What was read once is the same text when it is read again, as from a record."""
    text = check_metric(f"recall@{share}", positive)
    assert check_metric(text) == text
    read, known = parts_of_recall(text)
    assert read == pytest.approx(share, rel=1e-5)
    assert known == positive


@pytest.mark.parametrize("text", ["accuracy", "balanced"])
def test_other_metrics_stay_as_they_are(text: str) -> None:
    assert check_metric(text) == text
    with pytest.raises(UsageError, match="--grb-positive=1 says of which class"):
        check_metric(text, 1)


@pytest.mark.parametrize(
    "text",
    ["recall@0", "recall@1", "recall@", "recall@SHARE", "recall@nan", "recall@0.1+positive=x"],
)
def test_a_share_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="share of false alarms, above 0"):
        check_metric(text)


@pytest.mark.parametrize("text", ["recall", "auc", ""])
def test_other_texts_are_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(UsageError, match="allowed: accuracy, balanced, recall@SHARE"):
        check_metric(text)
