"""A digest of everything visible about a module except the values of its tensors.

If two digests of a module differ, something besides its tensors has changed, such as a list on
`self`. If they are equal, nothing visible has; state in globals is not visible, so predictions have
to be compared as well.
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

from grb_check.evaluation.weights import Unseen, bytes_of, tensors_of

_MUTABLE: Final = (list, dict, set, bytearray, Tensor)  # what a class may hold for its instances


def beside_tensors(module: nn.Module) -> str:
    """Hex digest of a module except the values of its tensors and its mode.

    It covers attributes of the module and its submodules and what they refer to, tensors that are
    neither parameters nor buffers, closures, hooks, and which tensors are the same or share memory.
    Digests are comparable within one process only.

    Raises:
        Unseen: it holds something that cannot be inspected, such as an open file or a handle of a
            library.
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
    """A file that keeps only the hash of what is written."""

    def __init__(self, sha: Any) -> None:
        self._sha = sha

    def write(self, content: Any) -> int:
        self._sha.update(content)
        return len(content)


class _Witness(pickle.Pickler):
    """A walk over everything reachable from an object; nothing is ever unpickled."""

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
    """The reduced form of an object; its content is the state, which may refer back to it."""
    return _seen, what, [inside]


def _seen(*what: str) -> None:
    """Stand-in for an object in the digest."""


def _of_class(owner: type) -> Iterable[tuple[str, object]]:
    """Mutable class attributes of a user's module, which all instances share."""
    for base in owner.__mro__:
        if base.__module__.partition(".")[0] in ("torch", "builtins"):
            continue
        for name, value in vars(base).items():
            if isinstance(value, _MUTABLE) and not name.startswith("__"):
                yield name, value


def _of_function(function: FunctionType) -> list[object]:
    """State of a function besides its name."""
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append([cell.cell_contents])
        except ValueError:  # still empty
            cells.append([])
    code = id(function.__code__)  # the same instructions may have other constants
    return [code, cells, function.__defaults__, function.__kwdefaults__, vars(function)]
