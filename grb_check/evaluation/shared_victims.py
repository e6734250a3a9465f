"""One training of each victim in a run of several workers.

The worker that comes first trains; the others build the same module and load the trained weights.
They are used only if nothing else can have changed in the training:

1. the module built by this worker equals the trainer's before its training, bit for bit;
2. the training changed nothing but tensors, see `visible_state`;
3. the loaded module gives the trainer's predictions on the clean graph and on another one: to the
   bit on a CPU, within rounding on a GPU, where sums have no fixed order.

Otherwise each worker trains for itself, which gives the same weights. A training that fails is not
tried again: the error is shared as well.

`trained_victims` is the only user: without its parameter `shared`, this module, `visible_state` and
`training.training_hook` can be deleted.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
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
from grb_check.evaluation.visible_state import beside_tensors
from grb_check.evaluation.weights import Unseen, bytes_of, digest_of, tensors_of
from grb_check.files.npz_file import Unreadable, seal, unseal
from grb_check.files.whole import write_whole
from grb_check.training.training_hook import TrainingHook, train_here
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.conventions import Adapter
from grb_check.victims.modes import freeze
from grb_check.victims.probed import Probed, probed_adapter
from grb_check.victims.subject import Subject

FORMAT: Final = 1
_TRAINED, _FAILED, _ALONE = "trained", "failed", "alone"
_ANSWERS: Final = ("/clean", "/disturbed")  # no tensor of a module is called so


class SharedVictims:
    """A folder that the workers of one run share, with a file for each victim.

    Args:
        folder: on one machine, of one run; made when it is needed. A file appears whole or not at
            all, and a damaged one is replaced.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._claimed: set[str] = set()  # by this process

    def meanwhile(
        self,
        subject: Subject,
        dataset: AnyDataset,
        fingerprint: str,
        seed: int,
        later: Sequence[int],
    ) -> Iterator[int]:
        """Claim a victim, and yield seeds to train while another worker trains that one.

        Args:
            subject: the model.
            dataset: on the device of the victim.
            fingerprint: of the dataset.
            seed: of the victim.
            later: seeds that will be needed next; those that no worker has claimed are yielded.
        """

        def claimed(each: int) -> bool:
            key = victim_key(subject, dataset, fingerprint, each)
            return key is None or self.claim(key)

        for other in later:
            if claimed(seed):
                return
            if claimed(other):
                yield other
        claimed(seed)

    def claim(self, key: str) -> bool:
        """Whether to go ahead with a victim: no other worker has begun, or one has finished.

        A claim only says whether there may be other work in the meantime. Whether its worker is
        still alive is known from the lock.
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

    def training_hook(
        self, subject: Subject, dataset: AnyDataset, fingerprint: str, seed: int
    ) -> TrainingHook:
        """The training of a victim that all workers share; see `meanwhile` for the arguments."""
        key = victim_key(subject, dataset, fingerprint, seed)
        return train_here if key is None else partial(self._trained, _Victim(key, dataset, seed))

    def _trained(
        self, victim: _Victim, untrained: Adapter, train: Callable[[], Adapter], probed: bool
    ) -> Adapter:
        found = self._read(victim.key)
        if found is None:
            with self._lock(victim.key):
                found = self._read(victim.key)
                if found is None:
                    return self._train_and_write(victim, untrained, train)
        head, arrays = found
        if head["what"] == _FAILED:
            raise ModelError(head["error"])
        if head["what"] == _ALONE:
            return train()
        with isolated_randomness(victim.seed):  # copying may run code of the user
            loaded = _read_back(victim, untrained, probed, head, arrays)
        return train() if loaded is None else loaded

    def _train_and_write(
        self, victim: _Victim, untrained: Adapter, train: Callable[[], Adapter]
    ) -> Adapter:
        """Train in the first worker, and write what the others need."""
        with isolated_randomness(victim.seed):  # and so may inspecting
            before = _before(untrained.module)
        try:
            trained = train()
        except ModelError as error:
            self._write(victim.key, {"what": _FAILED, "error": str(error)}, {})
            raise
        try:
            if before is None or beside_tensors(untrained.module) != before[1]:
                raise Unseen("its training changed more than tensors")
            tensors = tensors_of(trained.module)
            answers = victim.answers(trained)
        except (Unseen, RuntimeError):  # RuntimeError: no memory to call a copy
            self._write(victim.key, {"what": _ALONE}, {})
            return trained
        named = {**tensors, **answers}
        forms = {name: _form(tensor) for name, tensor in named.items()}
        head = {"what": _TRAINED, "before": before[0], "forms": forms}
        arrays = {name: _array(tensor) for name, tensor in named.items()}
        self._write(victim.key, head, arrays)
        return trained

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.npz"

    @contextmanager
    def _lock(self, key: str) -> Iterator[None]:
        """Make other workers wait; the system releases the lock when its worker dies."""
        with ExitStack() as held:
            # In an unusable folder each worker trains for itself.
            with suppress(OSError, NotImplementedError):
                self.folder.mkdir(parents=True, exist_ok=True)
                held.enter_context(FileLock(self._path(key).with_suffix(".lock")))
            yield

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
    """Return a key of a victim that is the same in every worker; None if there is none.

    A model given by name is the same in every worker; one made by a fixture may not be.
    """
    if not isinstance(subject.key, tuple):
        return None
    parts = [*map(str, subject.key), subject.name, dataset.name, fingerprint, str(seed)]
    parts += [dataset.graph.x.device.type, str(torch.get_num_threads())]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _before(module: nn.Module) -> tuple[str, str] | None:
    """Digests of a module before its training: of its tensors, and of everything else."""
    try:
        return digest_of(tensors_of(module)), beside_tensors(module)
    except Unseen:
        return None


@dataclass(frozen=True, eq=False)
class _Victim:
    """A victim's key, its dataset on its device, and the seed while it is called."""

    key: str
    dataset: AnyDataset
    seed: int

    def answers(self, adapter: Adapter) -> dict[str, Tensor]:
        """Logits on the clean graph and on another one, by the names in `_ANSWERS`.

        A copy is called, so that the module keeps no state of the call.

        Raises:
            Unseen: it cannot be copied or called.
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
            raise Unseen("its output is not a tensor")
        return found


def _disturbed(graph: Data) -> tuple[Tensor, Tensor]:
    """Permuted features, a tenth of the edges removed, and in a single graph one node added."""
    generator = torch.Generator().manual_seed(0)
    nodes, edges = graph.x.shape[0], graph.edge_index.shape[1]
    order = torch.randperm(nodes, generator=generator).to(graph.x.device)
    kept = torch.rand(edges, generator=generator) >= 0.1
    x, edge_index = graph.x[order], graph.edge_index[:, kept.to(graph.x.device)]
    if "batch" in graph or nodes == 0:
        return x, edge_index
    link = torch.tensor([[0, nodes], [nodes, 0]], device=edge_index.device)
    return torch.cat([x, x[:1]]), torch.cat([edge_index, link], dim=1)


def _read_back(
    victim: _Victim,
    untrained: Adapter,
    probed: bool,
    head: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> Adapter | None:
    """The module with the weights of another worker; None if they may not be all that changed.

    A copy is tried first, so that a module that has to be trained after all is unchanged.
    """
    try:
        trained = {name: _tensor(array, *head["forms"][name]) for name, array in arrays.items()}
        expected = {name: trained.pop(name) for name in _ANSWERS}
        if digest_of(tensors_of(untrained.module)) != head["before"]:
            return None
        found = victim.answers(_loaded(_copy(untrained), trained, probed))
        if not all(_same(found[name], expected[name]) for name in _ANSWERS):
            return None
        return _loaded(untrained, trained, probed)
    except (Unseen, RuntimeError):  # RuntimeError: a tensor that cannot be written to
        return None


def _loaded(untrained: Adapter, trained: Mapping[str, Tensor], probed: bool) -> Adapter:
    """The module, or the encoder and its probe, with these tensors, frozen.

    Raises:
        Unseen: the module has other tensors, or some of them share memory.
    """
    adapter = untrained
    device = next((each.device for each in tensors_of(untrained.module).values()), None)
    if probed:
        if not {"linear.weight", "linear.bias"} <= trained.keys():
            raise Unseen("there is no probe")
        weight, bias = (trained[f"linear.{name}"].to(device) for name in ("weight", "bias"))
        adapter = probed_adapter(untrained, Probed(untrained, weight, bias))
    own = tensors_of(adapter.module)
    if {name: _form(each) for name, each in own.items()} != {
        name: _form(each) for name, each in trained.items()
    }:
        raise Unseen("the module has other tensors")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(trained[name])
    if digest_of(own) != digest_of(trained):
        raise Unseen("tensors of the module share memory")
    freeze(adapter.module)
    return adapter


def _copy(adapter: Adapter) -> Adapter:
    try:
        return copy.deepcopy(adapter)
    except Exception as error:  # whatever a user's attribute raises
        raise Unseen(str(error)) from error


def _same(first: Tensor, second: Tensor) -> bool:
    """Whether two outputs are the same: to the bit, or on a GPU within rounding."""
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
    """The inverse of `_array`, on the CPU."""
    dtype: torch.dtype = getattr(torch, kind)
    if array.size == 0:  # torch cannot view nothing as another type
        return torch.empty(shape, dtype=dtype)
    return torch.from_numpy(array.copy()).view(dtype).reshape(shape)
