"""The inductive training loop: gradients from the training nodes alone, early stopping."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from grb_check.datasets.dataset import Dataset
from grb_check.datasets.views import training_view, validation_view
from grb_check.errors import DataError, ModelError, UsageError
from grb_check.training.view_checks import check_view
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.checks import check_nothing_cached, check_output
from grb_check.victims.conventions import Adapter, detect_convention
from grb_check.victims.modes import evaluating
from grb_check.victims.wrappers import Wrapped

# Raised whenever the same model, data and seed come to give other weights: by the loops, probing,
# adversarial training, or what the harness wraps models in. It is part of names on disk.
PROTOCOL: Final = 1


class Fit(Protocol):
    """A training of its own, see `grb_check.SelfTrained`."""

    def __call__(self, data: Data, validation: Data | None = None) -> object: ...


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """How a model is trained: full batch, cross-entropy, Adam.

    The learning rate is GRB's for every model; the warm-up and the clipped gradient let models
    train with it that otherwise collapse in the first steps, such as a GIN without normalisation.
    """

    max_epochs: int = 300
    patience: int = 50  # epochs in which neither validation accuracy nor loss got better
    lr: float = 0.01  # GRB, Tables 6 to 10
    weight_decay: float = 0.0
    warmup_epochs: int = 100  # over which the learning rate grows linearly to `lr`
    max_gradient_norm: float = 1.0

    def __post_init__(self) -> None:
        for name in ("max_epochs", "patience", "warmup_epochs"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}, allowed are 1 and more")
        for name in ("lr", "weight_decay"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise UsageError(f"{name} is {value}, allowed are 0 and more")
        if not self.max_gradient_norm > 0:
            raise UsageError(
                f"max_gradient_norm is {self.max_gradient_norm}, allowed is anything above 0"
            )


@dataclass(frozen=True)
class TrainingRun:
    """How a training went: epochs run (from 1), the best one, its score.

    The score is the validation accuracy, or what else was to be high, see `descend`.
    """

    epochs: int
    best_epoch: int
    accuracy: float


def train(
    adapter: Adapter,
    dataset: Dataset,
    settings: TrainingSettings,
    *,
    seed: int,
    device: torch.device,
) -> TrainingRun:
    """Train a module in place and leave it in its best epoch's state, in evaluation mode.

    Gradients come from the training view, early stopping from the validation nodes on the
    validation view; test nodes and their edges appear in neither. The best epoch is that of the
    highest validation accuracy; training ends when neither that nor the validation loss has
    improved for `patience` epochs, because the accuracy of a slow starter stands still at first.

    Args:
        adapter: the module, on the device, its lazy parameters initialised.
        seed: of the global random states, which dropout draws from.

    Raises:
        ModelError: the module raises, answers nonsense, or cannot be trained by gradients.
        DataError: there are no validation nodes.
    """
    if dataset.val.numel() == 0:
        raise DataError(
            f"dataset {dataset.name} has no validation nodes; early stopping needs some"
        )
    view = training_view(dataset).to(device)
    validation = validation_view(dataset).to(device)
    loss_of = loss_on(adapter, view, dataset.num_classes)
    measure = measure_on(adapter, validation, dataset.num_classes, validation.val_mask)
    return descend(adapter, loss_of, measure, settings, seed=seed)


def fit_with(module: nn.Module | Wrapped, settings: TrainingSettings) -> Fit:
    """A `fit` for `grb_check.SelfTrained` that trains a module as `train` does.

    For factories whose model needs other settings than the harness's, such as a learning rate.

    Returns:
        From the training view, and the validation view if there is one, to how the training went.
        Its seed is drawn from torch's global state. Without a validation view the training loss
        decides in place of validation accuracy and loss. It raises what `train` raises.
    """

    def fit(data: Data, validation: Data | None = None) -> TrainingRun:
        adapter = adapter_of(module)
        seed = drawn_seed()
        columns = check_views(adapter, data, validation, seed=seed)
        loss_of = loss_on(adapter, data, columns)
        measure = None
        if validation is not None:
            nodes = counted(validation, "val_mask")
            measure = measure_on(adapter, validation, columns, nodes)
        return descend(adapter, loss_of, measure, settings, seed=seed)

    return fit


def descend(
    adapter: Adapter,
    loss_of: Callable[[], Tensor],
    measure: Callable[[], tuple[float, float]] | None,
    settings: TrainingSettings,
    *,
    seed: int,
    measure_every: int = 1,
    measure_from: int = 1,
) -> TrainingRun:
    """Train a module on any loss, and leave it in its best epoch's state, in evaluation mode.

    Args:
        adapter: the module.
        loss_of: called once an epoch with the module in training mode, differentiable.
        measure: called with it in evaluation mode: a score to be high, such as validation
            accuracy, by which the best epoch is chosen, and one to be low, such as validation
            loss. None: the training loss is both.
        seed: of the global random states, which dropout draws from.
        measure_every: epochs from one call of `measure` to the next; the last has one too.
        measure_from: the first epoch whose state may be chosen.

    Raises:
        ModelError: the module cannot be trained by gradients, or the loss is not finite. It is
            then left as it is at that moment.
    """
    module = adapter.module
    parameters = [p for p in module.parameters() if p.requires_grad]
    if not parameters:
        raise _untrainable(adapter.name)
    optimizer = torch.optim.Adam(parameters, lr=settings.lr, weight_decay=settings.weight_decay)
    best_epoch, best_score, best_state = 0, -math.inf, module.state_dict()
    lowest_loss, improved = math.inf, 0
    with isolated_randomness(seed):
        for epoch in range(1, settings.max_epochs + 1):
            module.train()
            loss = loss_of()
            _check_loss(loss, adapter.name, epoch)
            optimizer.param_groups[0]["lr"] = settings.lr * min(1, epoch / settings.warmup_epochs)
            _step(optimizer, loss, parameters, settings.max_gradient_norm, adapter.name)
            module.eval()
            skipped = epoch < measure_from or epoch % measure_every
            if skipped and epoch < settings.max_epochs:
                continue
            reached = float(loss.detach())
            score, low = (-reached, reached) if measure is None else measure()
            if score > best_score:
                best_epoch, best_score, improved = epoch, score, epoch
                best_state = copy.deepcopy(module.state_dict())
            if low < lowest_loss:
                lowest_loss, improved = low, epoch
            if epoch - improved >= settings.patience:
                break
    module.load_state_dict(best_state)
    return TrainingRun(epoch, best_epoch, best_score)


def adapter_of(module: nn.Module | Wrapped) -> Adapter:
    """The module behind the harness's interface, named by its class.

    Raises:
        ModelError: it is no module, or cannot be called in any convention.
    """
    inner = module.module if isinstance(module, Wrapped) else module
    if not isinstance(inner, nn.Module):
        raise ModelError(
            f"the model is a {type(inner).__name__}; give a torch.nn.Module, or what "
            f"grb_check.wrap(module, forward=...) made of one"
        )
    name = type(inner).__name__
    if isinstance(module, Wrapped):
        return Adapter(inner, name, module.convention)
    return Adapter(inner, name, detect_convention(inner, "forward", name))


def check_views(adapter: Adapter, data: Data, validation: Data | None, *, seed: int) -> int:
    """The number of classes that the module tells, once it has answered on the views.

    The call also gives lazy parameters their shapes, and their first values from the seed.

    Raises:
        DataError: a view lacks something, or has no node that counts.
        ModelError: the module raises, answers nonsense, has too few columns for the labels, or
            keeps a graph that it has seen.
    """
    check_nothing_cached(adapter.module, adapter.name)
    check_view(data, "data", "train_mask")
    if validation is not None:
        check_view(validation, "data" if validation is data else "validation", "val_mask")
    with evaluating(adapter.module), torch.no_grad(), isolated_randomness(seed):
        output = adapter(data.x, data.edge_index)
    rows = int(data.x.shape[0])
    output = check_output(
        output, name=adapter.name, called=adapter.convention, rows=rows, columns=None
    )
    columns = int(output.shape[1])
    counting = [data.y[counted(data, "train_mask")]]
    if validation is not None:
        counting.append(validation.y[counted(validation, "val_mask")])
    highest = max(int(labels.max()) for labels in counting)
    if highest >= columns:
        raise ModelError(
            f"model {adapter.name} has {columns} outputs a node; the labels go up to {highest}, "
            f"which takes {highest + 1}"
        )
    return columns


def drawn_seed() -> int:
    """A seed from torch's global state, which the harness seeds for each repeat."""
    return int(torch.randint(2**31, ()))


def loss_on(adapter: Adapter, view: Data, num_classes: int) -> Callable[[], Tensor]:
    """A function that measures the cross-entropy of the training nodes, differentiable."""
    logits = logits_on(adapter, view, num_classes, "in training mode")
    nodes = counted(view, "train_mask")
    truth = view.y[nodes]
    return lambda: F.cross_entropy(logits()[nodes], truth)


def measure_on(
    adapter: Adapter, view: Data, num_classes: int, nodes: Tensor | slice
) -> Callable[[], tuple[float, float]]:
    """A function that measures accuracy and loss on these nodes."""
    logits = logits_on(adapter, view, num_classes, "on the validation view")
    truth = view.y[nodes]

    def measure() -> tuple[float, float]:
        with torch.no_grad():
            return accuracy_and_loss(logits()[nodes], truth)

    return measure


def accuracy_and_loss(logits: Tensor, truth: Tensor) -> tuple[float, float]:
    """Accuracy and mean cross-entropy of logits [n, c] against labels [n]."""
    accuracy = (logits.argmax(dim=1) == truth).float().mean()
    return float(accuracy), float(F.cross_entropy(logits, truth))


def counted(view: Data, mask: str) -> Tensor | slice:
    """The nodes under a mask; where there is none, or it holds all, all of them."""
    nodes: Tensor | None = view.get(mask)
    return slice(None) if nodes is None or bool(nodes.all()) else nodes


def logits_on(adapter: Adapter, view: Data, num_classes: int, when: str) -> Callable[[], Tensor]:
    """A function that calls the module on a view, whose topology is prepared once."""
    rows = view.x.shape[0]
    forward = adapter.on_topology(view.edge_index, rows)
    called = f"{adapter.convention} {when}"
    return lambda: check_output(
        forward(view.x), name=adapter.name, called=called, rows=rows, columns=num_classes
    )


def _check_loss(loss: Tensor, name: str, epoch: int) -> None:
    if not torch.isfinite(loss):
        raise ModelError(
            f"model {name}: the training loss is {float(loss.detach())} in epoch {epoch}"
        )


def _step(
    optimizer: torch.optim.Optimizer,
    loss: Tensor,
    parameters: list[nn.Parameter],
    max_gradient_norm: float,
    name: str,
) -> None:
    optimizer.zero_grad()
    if not loss.requires_grad:
        raise _untrainable(name)
    torch.autograd.backward(loss)
    if all(p.grad is None for p in parameters):
        raise _untrainable(name)
    nn.utils.clip_grad_norm_(parameters, max_gradient_norm)
    optimizer.step()


def _untrainable(name: str) -> ModelError:
    return ModelError(
        f"model {name} cannot be trained: no gradient reaches any of its parameters; a finished "
        f"model is returned as grb_check.Trained(module), one that trains itself has fit(data), "
        f"or is returned as grb_check.SelfTrained(module, fit)"
    )
