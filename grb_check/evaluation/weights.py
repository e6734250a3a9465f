"""Digests of a module's parameters and buffers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy


class Unseen(Exception):
    """Part of a module cannot be read; the message says why."""


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """All parameters and buffers by name, each once, including those outside the state dict.

    Raises:
        Unseen: one is lazy, sparse, quantised or expanded.
    """
    named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    for name, tensor in named.items():
        if is_lazy(tensor) or tensor.layout != torch.strided or tensor.is_quantized:
            raise Unseen(f"{name} is not a plain tensor")
        shared = zip(tensor.shape, tensor.stride(), strict=True)
        if any(size > 1 and step == 0 for size, step in shared):
            raise Unseen(f"{name} is an expanded tensor")
    return named


def bytes_of(tensor: Tensor) -> bytes:
    """The values of a tensor of any type, in row-major order.

    Raises:
        Unseen: it has no values, or they are not in plain memory.
    """
    try:
        plain = tensor.detach().cpu().resolve_conj().resolve_neg()
        real = torch.view_as_real(plain) if plain.is_complex() else plain
        return real.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    except (RuntimeError, TypeError) as error:
        raise Unseen(str(error)) from error


def digest_of(tensors: Mapping[str, Tensor]) -> str:
    """Hex digest of names, types, shapes and values.

    Raises:
        Unseen: see `bytes_of`.
    """
    sha = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        sha.update(f"{name!r} {tensor.dtype} {list(tensor.shape)}".encode())
        sha.update(bytes_of(tensor))
    return sha.hexdigest()
