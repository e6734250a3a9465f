"""Victims that are trained once for several workers; the tests play each worker in turn."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from small_graphs import community_dataset, set_of_graphs
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, global_add_pool

from grb_check import adversarial_training
from grb_check.datasets.graph_dataset import graph_dataset
from grb_check.datasets.views import AnyDataset
from grb_check.errors import ModelError
from grb_check.evaluation.shared_victims import SharedVictims, victim_key
from grb_check.evaluation.trained_victims import TrainedVictims
from grb_check.evaluation.weights import digest_of, tensors_of
from grb_check.gradients.victim import Victim
from grb_check.training.building import build_victim
from grb_check.training.nodes import TrainingSettings, fit_with
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.conventions import Adapter
from grb_check.victims.subject import Subject, as_subject
from grb_check.victims.wrappers import Encoder, SelfTrained, Trained

NODES = community_dataset()
GRAPHS = graph_dataset(set_of_graphs())
CPU = torch.device("cpu")
QUICK = TrainingSettings(max_epochs=5, warmup_epochs=1)


class Net(nn.Module):
    def __init__(self, inputs: int = 8, outputs: int = 3) -> None:
        super().__init__()
        self.first, self.second = GCNConv(inputs, 8), GCNConv(8, outputs)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = F.dropout(self.first(x, edge_index).relu(), 0.2, self.training)
        return self.second(h, edge_index)


class Fits(Net):
    """Trains itself, and then changes state as its subclass says."""

    def fit(self, data: Data, validation: Data | None = None) -> None:
        fit_with(self, QUICK)(data, validation)
        self.leave(data)

    def leave(self, data: Data) -> None:
        """Change nothing besides the weights."""


class Buffered(Fits):
    """Has statistics in buffers, one of them outside the state dict."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(8)
        self.register_buffer("mean", torch.zeros(8), persistent=False)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if self.training:
            self.mean.copy_(x.detach().mean(dim=0))
        return super().forward(self.norm(x) - self.mean, edge_index)


class Lazy(Fits):
    def __init__(self) -> None:
        super().__init__()
        self.first = GCNConv(-1, 8)


class OddTensors(Fits):
    """Has weights of a type that numpy lacks, and buffers of unusual shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("empty", torch.zeros(0, 3))
        self.register_buffer("waves", torch.randn(2, 2, dtype=torch.complex64))
        self.register_buffer("count", torch.tensor(3))
        self.scale = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index) * self.scale.float()


class OfGraphs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = GCNConv(3, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return self.last(global_add_pool(self.first(x, edge_index).relu(), batch))

    def fit(self, data: Data) -> None:
        with torch.no_grad():
            self.last.weight.add_(torch.randn(2, 8))


def _adversarial() -> SelfTrained:
    net = Net()
    return SelfTrained(net, lambda data, validation=None: _adversarially(net, data))


def _adversarially(net: Net, data: Data) -> None:
    adversarial_training(net, data, settings=_few_steps())


def _few_steps() -> object:
    from grb_check import AdversarialSettings

    return AdversarialSettings(warmup=QUICK, training=QUICK, growth=1, measure_every=2)


def _encoder(pretrained: bool) -> Encoder:
    net = Net(outputs=6)
    return Encoder(net.eval(), fit_with_nothing(net) if pretrained else None)


def fit_with_nothing(net: Net) -> Callable[[Data], None]:
    """A training without labels."""

    def pretrain(data: Data) -> None:
        with torch.no_grad():
            net.first.lin.weight.add_(torch.randn(8, 8))

    return pretrain


@dataclass
class Worker:
    """One process of a run, and the names of the models that it trains."""

    folder: Path
    dataset: AnyDataset = NODES
    trainings: list[str] = field(default_factory=list)

    def victim(self, make: Callable[[], object], seed: int = 0) -> Victim:
        shared = SharedVictims(self.folder)
        hook = shared.training_hook(SUBJECT, self.dataset, "print", seed)

        def counted(untrained: Adapter, train: Callable[[], Adapter], probed: bool) -> Adapter:
            def train_and_count() -> Adapter:
                self.trainings.append(untrained.name)
                return train()

            return hook(untrained, train_and_count, probed)

        with isolated_randomness(seed):
            built = make()
        return build_victim(
            built, self.dataset, name="m", seed=seed, device=CPU, training_hook=counted
        )


SUBJECT = Subject(("pkg:build", "[]"), "build", lambda: None)


def key() -> str:
    """The key of the victim of repeat 0; it depends on the number of threads in force."""
    return victim_key(SUBJECT, NODES, "print", 0) or ""


def alone(make: Callable[[], object], dataset: AnyDataset = NODES) -> Victim:
    """The same victim, trained without any sharing."""
    with isolated_randomness(0):
        built = make()
    return build_victim(built, dataset, name="m", seed=0, device=CPU)


def same(first: Victim, second: Victim) -> bool:
    """Whether weights and outputs are the same, to the bit."""
    graph = GRAPHS.graph if first.adapter.batch is not None else NODES.graph
    weights = [digest_of(tensors_of(each.module)) for each in (first, second)]
    with torch.no_grad():
        answers = [each(graph.x, graph.edge_index.flip(1)) for each in (first, second)]
    return weights[0] == weights[1] and torch.equal(*answers)


SHARED: dict[str, tuple[Callable[[], object], AnyDataset]] = {
    "trained by the harness": (Net, NODES),
    "buffers": (Buffered, NODES),
    "lazy": (Lazy, NODES),
    "odd tensors": (OddTensors, NODES),
    "trains itself": (Fits, NODES),
    "adversarial training": (_adversarial, NODES),
    "encoder with pretraining": (lambda: _encoder(True), NODES),
    "finished encoder": (lambda: _encoder(False), NODES),
    "graphs": (OfGraphs, GRAPHS),
}


@pytest.mark.parametrize(("make", "dataset"), SHARED.values(), ids=SHARED)
def test_the_second_worker_has_what_the_first_has_learnt(
    make: Callable[[], object],
    dataset: AnyDataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The weights are those of its own training, to the bit, frozen, and it does not train."""
    monkeypatch.setattr("grb_check.training.building.TrainingSettings", lambda: QUICK)
    monkeypatch.setattr("grb_check.training.probing.STRENGTHS", (1.0,))
    first, second = Worker(tmp_path, dataset), Worker(tmp_path, dataset)
    taught, recalled = first.victim(make), second.victim(make)
    assert (len(first.trainings), len(second.trainings)) == (1, 0)
    assert same(taught, recalled)
    assert same(alone(make, dataset), recalled)
    assert not any(each.requires_grad for each in recalled.module.parameters())
    assert not any(part.training for part in recalled.module.modules())
    assert recalled.adapter.convention == taught.adapter.convention


class Writes(Fits):
    def leave(self, data: Data) -> None:
        self.losses = [0.1]


class Neighbours(Fits):
    """Remembers embeddings in a global variable."""

    def leave(self, data: Data) -> None:
        MEMORY[self] = data.x.mean(dim=0)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        shift = MEMORY.get(self)
        return super().forward(x if shift is None else x + shift, edge_index)

    def __deepcopy__(self, memo: dict[int, object]) -> Neighbours:
        copied = Neighbours()
        copied.load_state_dict(self.state_dict())
        if self in MEMORY:
            MEMORY[copied] = MEMORY[self]
        return copied


MEMORY: dict[nn.Module, Tensor] = {}


class Wider(Fits):
    def leave(self, data: Data) -> None:
        self.extra = nn.Parameter(torch.zeros(2))


class ExtraState(Fits):
    count = 0

    def get_extra_state(self) -> int:
        return self.count

    def set_extra_state(self, state: int) -> None:
        self.count = state

    def leave(self, data: Data) -> None:
        self.count += 1


class MadeByFit(Net):
    """Cannot be called before its training."""

    def __init__(self) -> None:
        super().__init__()
        del self.second

    def fit(self, data: Data) -> None:
        self.second = GCNConv(8, 3)


class Handle(Fits):
    """Holds an object that cannot be inspected."""

    def __init__(self) -> None:
        super().__init__()
        self.rest = (each for each in range(3))

    def __deepcopy__(self, memo: dict[int, object]) -> Handle:
        copied = Handle()
        copied.load_state_dict(self.state_dict())
        return copied


@pytest.mark.parametrize(
    "make", [Writes, Neighbours, Wider, ExtraState, MadeByFit, Handle], ids=lambda it: it.__name__
)
def test_what_may_have_stayed_behind_is_trained_again(
    make: Callable[[], object], tmp_path: Path
) -> None:
    """With state outside of tensors, visible or not, each worker trains its own victim."""
    Worker(tmp_path).victim(make)
    second = Worker(tmp_path)
    victim = second.victim(make)
    assert len(second.trainings) == (0 if make is MadeByFit else 1)  # no hook is called for it
    assert same(alone(make), victim)


def test_what_cannot_be_asked_for_want_of_memory_is_trained_by_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first worker keeps its trained victim, and the second trains its own."""

    def no_memory(*_: object) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr("grb_check.evaluation.shared_victims._disturbed", no_memory)
    first, second = Worker(tmp_path), Worker(tmp_path)
    assert same(first.victim(Fits), second.victim(Fits))
    assert (len(first.trainings), len(second.trainings)) == (1, 1)


def test_a_training_that_failed_is_the_same_error_without_another(tmp_path: Path) -> None:
    """The message is the same, word for word."""

    class Fails(Fits):
        def leave(self, data: Data) -> None:
            raise RuntimeError("the user's own fault")

    workers = Worker(tmp_path), Worker(tmp_path)
    texts = []
    for worker in workers:
        with pytest.raises(ModelError, match="the user's own fault") as caught:
            worker.victim(Fails)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    assert [len(worker.trainings) for worker in workers] == [1, 0]


def test_a_module_that_began_otherwise_trains_itself(tmp_path: Path) -> None:
    """A factory may build other weights in another worker."""
    Worker(tmp_path).victim(Fits)

    def other() -> Fits:
        torch.randn(1)
        return Fits()

    second = Worker(tmp_path)
    assert same(alone(other), second.victim(other))
    assert len(second.trainings) == 1


@pytest.mark.parametrize("cut", [0, 10, -10])
def test_half_a_file_is_not_believed(cut: int, tmp_path: Path) -> None:
    """A worker may die while it writes the file."""
    Worker(tmp_path).victim(Fits)
    path = tmp_path / f"{key()}.npz"
    path.write_bytes(path.read_bytes()[:cut])
    second = Worker(tmp_path)
    assert same(alone(Fits), second.victim(Fits))
    assert len(second.trainings) == 1
    third = Worker(tmp_path)
    third.victim(Fits)
    assert not third.trainings


def test_a_worker_that_dies_in_training_holds_up_nobody(tmp_path: Path) -> None:
    """The system releases its lock; its claim only affects which seeds are trained ahead."""
    dying = (
        "import sys, os, filelock; lock = filelock.FileLock(sys.argv[1]); lock.acquire(); "
        "open(sys.argv[2], 'w').close(); os._exit(1)"
    )
    files = [str(tmp_path / name) for name in (f"{key()}.lock", f"{key()}.claim")]
    subprocess.run([sys.executable, "-c", dying, *files], check=False, timeout=60)
    assert not SharedVictims(tmp_path).claim(key())
    worker = Worker(tmp_path)
    assert same(alone(Fits), worker.victim(Fits))
    assert len(worker.trainings) == 1


def test_a_folder_that_cannot_be_used_is_as_none(tmp_path: Path) -> None:
    """Each worker trains for itself."""
    (tmp_path / "file").touch()
    for _ in range(2):
        worker = Worker(tmp_path / "file" / "below")
        worker.victim(Fits)
        assert len(worker.trainings) == 1


def test_a_claim_is_that_of_the_first_until_it_is_done(tmp_path: Path) -> None:
    """Any worker may claim the victim once it is trained."""
    first, second = SharedVictims(tmp_path), SharedVictims(tmp_path)
    assert first.claim(key())
    assert first.claim(key())
    assert not second.claim(key())
    assert second.claim("other")
    Worker(tmp_path).victim(Fits)
    assert second.claim(key())


def _victims(shared: SharedVictims | None) -> TrainedVictims:
    return TrainedVictims(NODES, "print", CPU, shared)


def test_a_worker_trains_ahead_while_another_trains(tmp_path: Path) -> None:
    """It trains unclaimed later seeds; the victims are those of a single process."""
    order: list[int] = []

    def factory(seed: int) -> SelfTrained:
        net = Net()

        def fit(data: Data, validation: Data | None = None) -> None:
            order.append(seed)
            fit_with(net, QUICK)(data, validation)

        return SelfTrained(net, fit)

    subject = Subject(("pkg:build", "[]"), "build", factory)
    victims = _victims(SharedVictims(tmp_path))
    keys = [victim_key(subject, NODES, "print", seed) for seed in range(4)]
    assert len(set(keys)) == 4
    other = SharedVictims(tmp_path)
    assert all(key is not None and other.claim(key) for key in (keys[0], keys[2]))
    ready = [victims.get(subject, seed, range(seed + 1, 4)) for seed in range(4)]
    assert order == [1, 3, 0, 2]
    by_itself = _victims(None)
    for seed in range(4):
        assert same(by_itself.get(subject, seed).victim, ready[seed].victim)


def test_what_a_fixture_made_and_what_is_finished_is_not_shared(tmp_path: Path) -> None:
    """Another worker may have another model of that name."""
    assert victim_key(as_subject(Net), NODES, "print", 0) is None
    assert victim_key(as_subject(Trained(Net())), NODES, "print", 0) is None
    subject = Subject(("pkg:build", "[]"), "build", lambda: Trained(Net().eval()))
    victims = _victims(SharedVictims(tmp_path))
    victims.get(subject, 0, range(1, 3))
    assert not list(tmp_path.glob("*.npz"))
