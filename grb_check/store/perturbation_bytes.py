"""A perturbation as bytes with a checksum, and back."""

from __future__ import annotations

from grb_check.attacks.threat import Perturbation, perturbation_of
from grb_check.files.npz_file import seal, unseal


def to_bytes(perturbation: Perturbation) -> bytes:
    """Return the tensors and notes of a perturbation as a sealed npz file."""
    arrays = {name: tensor.cpu().numpy() for name, tensor in perturbation.named_tensors().items()}
    return seal({"notes": perturbation.notes}, arrays)


def from_bytes(content: bytes) -> Perturbation:
    """Return the perturbation that `to_bytes` was called on.

    Raises:
        Unreadable: these are other bytes.
    """
    head, arrays = unseal(content)
    return perturbation_of(arrays, head["notes"])
