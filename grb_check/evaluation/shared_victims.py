"""One training of each victim in a run of several workers.

The worker that comes first trains; the others build the same module and load what it has learnt.
They believe it only if nothing can have stayed behind:

1. the module that they have built is the trainer's, bit for bit, before the training;
2. nothing but tensors changed in the training, see `visible_state`;
3. the loaded module answers as the trained one did, on the clean graph and on another one: to the
   bit on a CPU, within rounding on a GPU, where sums come in any order.

Where one of these does not hold, each worker trains for itself, which gives the same. A training
that fails is not tried again: the error is shared too.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import NDArray
from torch import Tensor, nn
from torch_geometric.data import Data

from grb_check.datasets.views import AnyDataset
from grb_check.errors import ModelError
from grb_check.evaluation.visible_state import (
    Unseen,
    beside_tensors,
    bytes_of,
    digest_of,
    tensors_of,
)
from grb_check.files.npz_file import Unreadable, seal, unseal
from grb_check.files.whole import write_whole
from grb_check.training.training_hook import TrainingHook
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.conventions import Adapter
from grb_check.victims.modes import freeze
from grb_check.victims.probed import Probed, probed_adapter
from grb_check.victims.subject import Subject

FORMAT: Final = 1
_LEARNT, _FAILED, _ALONE = "learnt", "failed", "alone"
_ANSWERS: Final = ("/clean", "/disturbed")  # no tensor of a module is called so


@dataclass(frozen=True)
class SharedVictims:
    """A folder that the workers of one run share, with a file for each victim.

    Args:
        folder: on one machine, of one run; made when it is needed. A file appears whole or not at
            all, and one that is damaged is made again.
    """

    folder: Path
    _claimed: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def claim(self, key: str) -> bool:
        """Whether to go ahead with a victim: no other worker has begun, or one has finished.

        Where another has, there may be something else to do in the meantime. That is all: what a
        claim is worth when its worker has died, the lock tells.
        """
        if key in self._claimed or self._path(key).exists():
            return True
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                self._path(key).with_suffix(".claim").touch(exist_ok=False)
            except FileExistsError:
                return False
        self._claimed.add(key)
        return True

    def lesson(self, key: str, dataset: AnyDataset, seed: int) -> TrainingHook:
        """The training of a victim that all workers share.

        Args:
            key: of the victim.
            dataset: on the device of the victim.
            seed: of the global random states while the victim is asked.
        """
        return partial(self._lesson, _Victim(key, dataset, seed))

    def _lesson(
        self, victim: _Victim, pupil: Adapter, learn: Callable[[], Adapter], probed: bool
    ) -> Adapter:
        found = self._read(victim.key)
        if found is None:
            with self._lock(victim.key):
                found = self._read(victim.key)
                if found is None:
                    return self._taught(victim, pupil, learn)
        head, arrays = found
        if head["what"] == _FAILED:
            raise ModelError(head["error"])
        if head["what"] == _ALONE:
            return learn()
        with isolated_randomness(victim.seed):  # copying may run code of the user
            recalled = _recalled(victim, pupil, probed, head, arrays)
        return learn() if recalled is None else recalled

    def _taught(self, victim: _Victim, pupil: Adapter, learn: Callable[[], Adapter]) -> Adapter:
        """What the first worker does: train, and leave what the others need."""
        with isolated_randomness(victim.seed):  # so may looking
            before = _before(pupil.module)
        try:
            learnt = learn()
        except ModelError as error:
            self._write(victim.key, {"what": _FAILED, "error": str(error)}, {})
            raise
        try:
            if before is None or beside_tensors(pupil.module) != before.beside:
                raise Unseen("its training changed more than tensors")
            tensors = tensors_of(learnt.module)
            answers = victim.answers(learnt)
        except (Unseen, RuntimeError):  # the second where there is no memory to ask a copy
            self._write(victim.key, {"what": _ALONE}, {})
            return learnt
        named = {**tensors, **answers}
        forms = {name: _form(tensor) for name, tensor in named.items()}
        head = {"what": _LEARNT, "before": before.tensors, "forms": forms}
        arrays = {name: _array(tensor) for name, tensor in named.items()}
        self._write(victim.key, head, arrays)
        return learnt

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.npz"

    @contextmanager
    def _lock(self, key: str) -> Iterator[None]:
        """Hold off the others; the system lets go of it when a worker dies."""
        lock = None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self._path(key).with_suffix(".lock"))
            lock.acquire()
        except (OSError, NotImplementedError):
            lock = None  # the folder is of no use: each worker trains for itself
        try:
            yield
        finally:
            if lock is not None:
                lock.release()

    def _read(self, key: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
        try:
            head, arrays = unseal(self._path(key).read_bytes())
        except (OSError, Unreadable):
            return None
        return (head, arrays) if head.get("format") == FORMAT and head["key"] == key else None

    def _write(self, key: str, head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        content = seal({"format": FORMAT, "key": key, **head}, arrays)
        with suppress(OSError):
            write_whole(self._path(key), content)


def victim_key(subject: Subject, dataset: AnyDataset, fingerprint: str, seed: int) -> str | None:
    """What tells a victim from all others of a run, in every worker; None where nothing does.

    A model that is named is the same in every worker; one that a fixture made need not be.
    """
    if not isinstance(subject.key, tuple):
        return None
    parts = [*map(str, subject.key), subject.name, dataset.name, fingerprint, str(seed)]
    parts += [dataset.graph.x.device.type, str(torch.get_num_threads())]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True)
class _Before:
    """A module before its training: digests of its tensors, and of all else about it."""

    tensors: str
    beside: str


def _before(module: nn.Module) -> _Before | None:
    try:
        return _Before(digest_of(tensors_of(module)), beside_tensors(module))
    except Unseen:
        return None


@dataclass(frozen=True, eq=False)
class _Victim:
    key: str
    dataset: AnyDataset
    seed: int

    def answers(self, adapter: Adapter) -> dict[str, Tensor]:
        """Logits on the clean graph and on another one, by the names in `_ANSWERS`.

        A copy is asked, so that nothing is left behind.

        Raises:
            Unseen: it cannot be copied, or does not answer.
        """
        graph = self.dataset.graph
        asked = replace(_copy(adapter), batch=graph.get("batch"))
        graphs = ((graph.x, graph.edge_index), _disturbed(graph))
        try:
            with isolated_randomness(self.seed), torch.no_grad():
                found = {name: asked(*each) for name, each in zip(_ANSWERS, graphs, strict=True)}
        except ModelError as error:
            raise Unseen(str(error)) from error
        if not all(isinstance(each, Tensor) for each in found.values()):
            raise Unseen("its answer is no tensor")
        return found


def _disturbed(graph: Data) -> tuple[Tensor, Tensor]:
    """Features in another order, a tenth of the edges less, and of a single graph one node more."""
    generator = torch.Generator().manual_seed(0)
    nodes, edges = graph.x.shape[0], graph.edge_index.shape[1]
    order = torch.randperm(nodes, generator=generator).to(graph.x.device)
    kept = torch.rand(edges, generator=generator) >= 0.1
    x, edge_index = graph.x[order], graph.edge_index[:, kept.to(graph.x.device)]
    if "batch" in graph or nodes == 0:
        return x, edge_index
    link = torch.tensor([[0, nodes], [nodes, 0]], device=edge_index.device)
    return torch.cat([x, x[:1]]), torch.cat([edge_index, link], dim=1)


def _recalled(
    victim: _Victim,
    pupil: Adapter,
    probed: bool,
    head: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> Adapter | None:
    """The pupil with what another worker has learnt; None where that cannot be believed.

    It is tried on a copy, so that a pupil that has to train after all is as it was.
    """
    try:
        learnt = {name: _tensor(array, *head["forms"][name]) for name, array in arrays.items()}
        expected = {name: learnt.pop(name) for name in _ANSWERS}
        if digest_of(tensors_of(pupil.module)) != head["before"]:
            return None
        found = victim.answers(_loaded(_copy(pupil), learnt, probed))
        if not all(_same(found[name], expected[name]) for name in _ANSWERS):
            return None
        return _loaded(pupil, learnt, probed)
    except (Unseen, RuntimeError):  # the second of a tensor that cannot be written to
        return None


def _loaded(pupil: Adapter, learnt: Mapping[str, Tensor], probed: bool) -> Adapter:
    """The pupil, or the encoder and its probe, with these tensors, frozen.

    Raises:
        Unseen: the tensors of the module are others, or some share memory.
    """
    adapter = pupil
    device = next((each.device for each in tensors_of(pupil.module).values()), None)
    if probed:
        if not {"linear.weight", "linear.bias"} <= learnt.keys():
            raise Unseen("there is no probe")
        weight, bias = (learnt[f"linear.{name}"].to(device) for name in ("weight", "bias"))
        adapter = probed_adapter(pupil, Probed(pupil, weight, bias))
    own = tensors_of(adapter.module)
    if {name: _form(each) for name, each in own.items()} != {
        name: _form(each) for name, each in learnt.items()
    }:
        raise Unseen("the module has other tensors")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(learnt[name])
    if digest_of(own) != digest_of(learnt):
        raise Unseen("tensors of the module share memory")
    freeze(adapter.module)
    return adapter


def _copy(adapter: Adapter) -> Adapter:
    try:
        return copy.deepcopy(adapter)
    except Exception as error:  # whatever a user's attribute raises
        raise Unseen(str(error)) from error


def _same(first: Tensor, second: Tensor) -> bool:
    """Whether two answers are the same: to the bit, or on a GPU within rounding."""
    if _form(first) != _form(second):
        return False
    if first.device.type == "cpu":
        return bytes_of(first) == bytes_of(second)
    return torch.allclose(first.cpu(), second, rtol=1e-4, atol=1e-5)


def _form(tensor: Tensor) -> tuple[str, list[int]]:
    return str(tensor.dtype).removeprefix("torch."), list(tensor.shape)


def _array(tensor: Tensor) -> NDArray[Any]:
    """The bytes of a tensor: numpy lacks some of its types."""
    return np.frombuffer(bytes_of(tensor), np.uint8)


def _tensor(array: NDArray[Any], kind: str, shape: list[int]) -> Tensor:
    """What `_array` was given, on the CPU."""
    dtype: torch.dtype = getattr(torch, kind)
    if array.size == 0:  # torch cannot view nothing as another type
        return torch.empty(shape, dtype=dtype)
    return torch.from_numpy(array.copy()).view(dtype).reshape(shape)
