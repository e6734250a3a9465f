"""Limits of features by column, for data whose columns have units of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False, kw_only=True)
class ColumnLimits:
    """The values that a changed or injected node may have in each column.

    Attributes:
        low: float32 [d], lowest values.
        high: float32 [d], highest values; those of a constant column are equal.
        step: float32 [d], distance of the values that are allowed from `low` on; 0 for all values
            between the limits.
    """

    low: Tensor
    high: Tensor
    step: Tensor

    @property
    def half_range(self) -> Tensor:
        """Half of the width of each column, float32 [d]."""
        return (self.high - self.low) / 2

    def rounded(self, features: Tensor) -> Tensor:
        """Return the allowed features float [n, d] that are closest to these."""
        limits = self.to(features.device)
        step = limits.step.to(features)
        stepped = limits.low + ((features - limits.low) / step.clamp(min=1e-30)).round() * step
        return torch.where(step > 0, stepped, features).clamp(limits.low, limits.high)

    def to(self, device: torch.device) -> ColumnLimits:
        """Return the same limits on a device."""
        return replace(
            self, low=self.low.to(device), high=self.high.to(device), step=self.step.to(device)
        )

    def in_units(self) -> ColumnLimits:
        """Return the limits of features in units, see `to_units`."""
        half = self.half_range
        ends = (half > 0).to(half)
        step = torch.where(half > 0, self.step / half.clamp(min=1e-30), torch.zeros_like(half))
        return ColumnLimits(low=-ends, high=ends, step=step)

    def to_units(self, features: Tensor) -> Tensor:
        """Return features float [n, d] with -1 for the lowest and 1 for the highest of a column.

        A constant column becomes 0.
        """
        low, half = self.low.to(features.device), self.half_range.to(features.device)
        units = (features - low) / half.clamp(min=1e-30) - 1
        return torch.where(half > 0, units, torch.zeros_like(units))

    def from_units(self, units: Tensor) -> Tensor:
        """Return the features float [n, d] that `to_units` was called on, up to rounding."""
        return self.low.to(units.device) + (units + 1) * self.half_range.to(units.device)


def limits_of(x: Tensor) -> ColumnLimits:
    """Return the limits of the columns of features float32 [N, d].

    Each column keeps to its range; one of whole numbers keeps to whole numbers, so that a flag
    stays 0 or 1, and a constant column stays constant.
    """
    x = x.cpu()
    whole = (x == x.round()).all(dim=0)
    return ColumnLimits(low=x.amin(0), high=x.amax(0), step=whole.to(x))
