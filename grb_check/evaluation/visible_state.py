"""What a module consists of: its tensors, and a digest of all else that can be seen of it.

Two digests of a module that differ say that something has changed beside its tensors, such as a
list on `self`. Equal ones say that nothing did that can be seen; what a model keeps in globals
cannot, so answers have to be compared as well.
"""

from __future__ import annotations

import hashlib
import pickle
import weakref
from collections.abc import Iterable, Mapping
from types import FunctionType, ModuleType
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

_MUTABLE: Final = (list, dict, set, bytearray, Tensor)  # what a class may hold for its instances


class Unseen(Exception):
    """Part of a module cannot be seen; says why."""


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """All parameters and buffers by name, each once, those too that no state dict holds.

    Raises:
        Unseen: one has no values yet, or none of its own for each place.
    """
    named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    for name, tensor in named.items():
        if is_lazy(tensor) or tensor.layout != torch.strided or tensor.is_quantized:
            raise Unseen(f"{name} is no plain tensor")
        shared = zip(tensor.shape, tensor.stride(), strict=True)
        if any(size > 1 and step == 0 for size, step in shared):
            raise Unseen(f"{name} is an expanded tensor")
    return named


def bytes_of(tensor: Tensor) -> bytes:
    """The values of a tensor of any type, row by row.

    Raises:
        Unseen: it has none, or they do not lie in plain memory.
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


def beside_tensors(module: nn.Module) -> str:
    """Hex digest of everything that hangs on a module but the values of its tensors and its mode.

    Attributes of it and its parts, what they refer to, tensors that are no parameters or buffers,
    closures, hooks, and which of its tensors are the same or share memory. It holds within one
    process, where nothing has been changed in between.

    Raises:
        Unseen: it holds what cannot be looked into, such as an open file or a handle of a library.
    """
    sha = hashlib.sha256()
    try:
        _Witness(_Hashed(sha), tensors_of(module)).dump(module)
    except Unseen:
        raise
    except Exception as error:  # whatever the pickling of a user's object raises
        raise Unseen(f"{type(error).__name__}: {error}") from error
    return sha.hexdigest()


class _Hashed:
    """A file that keeps nothing but the hash of what is written."""

    def __init__(self, sha: Any) -> None:
        self._sha = sha

    def write(self, content: Any) -> int:
        self._sha.update(content)
        return len(content)


class _Witness(pickle.Pickler):
    """A walk over all that can be reached from an object; nothing is ever unpickled."""

    def __init__(self, stream: _Hashed, named: Mapping[str, Tensor]) -> None:
        super().__init__(stream, protocol=5)
        self._names = {id(tensor): name for name, tensor in named.items()}
        self._storages: dict[int, str] = {}
        for name, tensor in named.items():
            self._storages.setdefault(tensor.untyped_storage().data_ptr(), name)

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            return _as_seen(*self._of_tensor(obj), inside=vars(obj))
        if isinstance(obj, nn.Module):
            inside = {name: value for name, value in vars(obj).items() if name != "training"}
            return _as_seen("module", inside=(type(obj), inside, list(_of_class(type(obj)))))
        if isinstance(obj, type):
            return _as_seen("class", obj.__module__, obj.__qualname__, str(id(obj)))
        if isinstance(obj, FunctionType) and obj is not _seen:
            return _as_seen("function", obj.__module__, obj.__qualname__, inside=_of_function(obj))
        if isinstance(obj, ModuleType):
            return _as_seen("python module", obj.__name__)
        if isinstance(obj, weakref.ref):
            return _as_seen("reference", inside=[obj()])
        if isinstance(obj, torch.Generator):
            return _as_seen("generator", inside=bytes_of(obj.get_state()))
        return NotImplemented

    def _of_tensor(self, tensor: Tensor) -> tuple[str, ...]:
        name = self._names.get(id(tensor))
        form = f"{tensor.dtype} {tensor.device} {list(tensor.shape)} {tensor.stride()}"
        if name is None:
            return "tensor", form, hashlib.sha256(bytes_of(tensor)).hexdigest()
        return "named", form, name, self._storages[tensor.untyped_storage().data_ptr()]


def _as_seen(*what: str, inside: object = None) -> tuple[Any, ...]:
    """What a pickler is told of an object; what is inside comes third, where it may lead back."""
    return _seen, what, [inside]


def _seen(*what: str) -> None:
    """Stands in the digest where an object was."""


def _of_class(owner: type) -> Iterable[tuple[str, object]]:
    """What the classes of a user's module hold for all instances and may change."""
    for base in owner.__mro__:
        if base.__module__.partition(".")[0] in ("torch", "builtins"):
            continue
        for name, value in vars(base).items():
            if isinstance(value, _MUTABLE) and not name.startswith("__"):
                yield name, value


def _of_function(function: FunctionType) -> list[object]:
    """What a function can carry along beside its name."""
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append([cell.cell_contents])
        except ValueError:  # still empty
            cells.append([])
    code = id(function.__code__)  # the same instructions may have other constants
    return [code, cells, function.__defaults__, function.__kwdefaults__, vars(function)]
