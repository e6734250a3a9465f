"""The inductive training loop: gradients from the training nodes alone, early stopping."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from grb_check.conventions import Adapter
from grb_check.datasets.dataset import Dataset, training_view, validation_view
from grb_check.errors import DataError, ModelError
from grb_check.model_checks import check_output
from grb_check.randomness import isolated_randomness


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


@dataclass(frozen=True)
class TrainingRun:
    """How a training went: epochs run (from 1), the best one, its validation accuracy."""

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
    module = adapter.module
    parameters = [p for p in module.parameters() if p.requires_grad]
    if not parameters:
        raise _untrainable(adapter.name)
    optimizer = torch.optim.Adam(parameters, lr=settings.lr, weight_decay=settings.weight_decay)
    loss_of = _training_loss(adapter, dataset, device)
    validate = _validation(adapter, dataset, device)
    best_epoch, best_accuracy, best_state = 0, -1.0, module.state_dict()
    lowest_loss, improved = math.inf, 0
    with isolated_randomness(seed):
        for epoch in range(1, settings.max_epochs + 1):
            module.train()
            loss = loss_of()
            _check_loss(loss, adapter.name, epoch)
            optimizer.param_groups[0]["lr"] = settings.lr * min(1, epoch / settings.warmup_epochs)
            _step(optimizer, loss, parameters, settings.max_gradient_norm, adapter.name)
            module.eval()
            accuracy, validation_loss = validate()
            if accuracy > best_accuracy:
                best_epoch, best_accuracy, improved = epoch, accuracy, epoch
                best_state = copy.deepcopy(module.state_dict())
            if validation_loss < lowest_loss:
                lowest_loss, improved = validation_loss, epoch
            if epoch - improved >= settings.patience:
                break
    module.load_state_dict(best_state)
    return TrainingRun(epoch, best_epoch, best_accuracy)


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


def _training_loss(
    adapter: Adapter, dataset: Dataset, device: torch.device
) -> Callable[[], Tensor]:
    view = training_view(dataset).to(device)
    logits = _logits(adapter, view, dataset.num_classes, "in training mode")
    return lambda: F.cross_entropy(logits(), view.y)


def _validation(
    adapter: Adapter, dataset: Dataset, device: torch.device
) -> Callable[[], tuple[float, float]]:
    """A function that measures accuracy and loss on the validation nodes."""
    view = validation_view(dataset).to(device)
    logits = _logits(adapter, view, dataset.num_classes, "on the validation view")
    truth = view.y[view.val_mask]

    def measure() -> tuple[float, float]:
        with torch.no_grad():
            output = logits()[view.val_mask]
            accuracy = (output.argmax(dim=1) == truth).float().mean()
            return float(accuracy), float(F.cross_entropy(output, truth))

    return measure


def _logits(adapter: Adapter, view: Data, num_classes: int, when: str) -> Callable[[], Tensor]:
    """A function that calls the module on a view, whose topology is prepared once."""
    rows = view.x.shape[0]
    forward = adapter.on_topology(view.edge_index, rows)
    called = f"{adapter.convention} {when}"
    return lambda: check_output(
        forward(view.x), name=adapter.name, called=called, rows=rows, columns=num_classes
    )


def _untrainable(name: str) -> ModelError:
    return ModelError(
        f"model {name} cannot be trained: no gradient reaches any of its parameters; a finished "
        f"model is returned as grb_check.Trained(module), one that trains itself has fit(data)"
    )
