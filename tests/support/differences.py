"""Differences of two run records. pytest's own comparison of large ones takes minutes."""

from __future__ import annotations

from typing import Any


def differences(left: Any, right: Any, path: str = "") -> list[str]:
    """The paths at which two values of JSON differ, with both values in short."""
    if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        return [
            difference
            for key in left
            for difference in differences(left[key], right[key], f"{path}/{key}")
        ]
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        pairs = enumerate(zip(left, right, strict=True))
        return [
            difference for at, pair in pairs for difference in differences(*pair, f"{path}/{at}")
        ]
    return [] if left == right else [f"{path}: {left!s:.100} is not {right!s:.100}"]


def timeless(value: Any) -> Any:
    """Remove what differs between runs: durations, and hits of the store."""
    if isinstance(value, dict):
        left_out = {"seconds", "training_seconds", "from_store", "measured_before"}
        left_out |= {"origins", "digest", "date"}
        return {key: timeless(item) for key, item in value.items() if key not in left_out}
    return [timeless(item) for item in value] if isinstance(value, list) else value
