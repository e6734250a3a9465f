"""A perturbation as bytes with a checksum, and back."""

from __future__ import annotations

import torch

from grb_check.attacks.threat import TENSORS, Perturbation
from grb_check.files.npz_file import seal, unseal


def to_bytes(perturbation: Perturbation) -> bytes:
    """Return the tensors and notes of a perturbation as a sealed npz file."""
    arrays = {name: getattr(perturbation, name).cpu().numpy() for name in TENSORS}
    return seal({"notes": perturbation.notes}, arrays)


def from_bytes(content: bytes) -> Perturbation:
    """Return the perturbation that `to_bytes` was called on.

    Raises:
        Unreadable: these are other bytes.
    """
    head, arrays = unseal(content)
    tensors = {name: torch.from_numpy(arrays[name]) for name in TENSORS}
    return Perturbation(**tensors, notes=tuple(head["notes"]))
