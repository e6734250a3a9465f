"""The training loop for nodes: cross-entropy on the training nodes, early stopping."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from grb_check.datasets.dataset import Dataset
from grb_check.datasets.dtypes import dtype_name
from grb_check.datasets.recall import Recall, average_precision
from grb_check.datasets.views import training_view, validation_view
from grb_check.errors import DataError, ModelError, UsageError
from grb_check.training.module_state import state_restorer
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.adapter import Adapter
from grb_check.victims.checks import DIVERGED, check_nothing_cached, check_output
from grb_check.victims.conventions import detect_convention
from grb_check.victims.wrappers import Wrapped, evaluating

# Raised whenever the same model, data and seed give other weights: after changes to the loops, the
# probe, adversarial training or the harness's wrappers. It is part of names on disk.
PROTOCOL: Final = 1


def check_view(view: object, name: str, mask: str) -> None:
    """Check that a view is a labelled graph.

    Args:
        view: `x` float [n, d], `edge_index` int64 [2, e], `y` int64 [n] and optionally a mask
            bool [n].
        name: of the argument, for the message.
        mask: name of the mask, `train_mask` or `val_mask`.

    Raises:
        DataError: a field is missing or invalid.
    """
    expected = f"it must be a torch_geometric Data with x, edge_index, y (and {mask})"
    if not isinstance(view, Data):
        raise DataError(f"{name} is a {type(view).__name__}; {expected}")
    for field in ("x", "edge_index", "y"):
        if not isinstance(view.get(field), Tensor):
            raise DataError(f"{name} has no {field}; {expected}")
    x, edges, y = view.x, view.edge_index, view.y
    if x.dim() != 2 or not x.is_floating_point() or not x.numel() or x.layout != torch.strided:
        raise DataError(
            f"{name}: x is {_form(x)}; it must be a dense float [num_nodes, num_features]"
        )
    devices = {str(tensor.device) for tensor in (x, edges, y)}
    if len(devices) > 1:
        raise DataError(f"{name}: x, edge_index and y are on {sorted(devices)}; move all to one")
    if not x.isfinite().all():
        raise DataError(f"{name}: x has NaN or infinite entries; all features must be finite")
    if edges.dim() != 2 or edges.shape[0] != 2 or edges.dtype != torch.int64:
        raise DataError(f"{name}: edge_index is {_form(edges)}; it must be int64 [2, num_edges]")
    if y.shape != x.shape[:1] or y.dtype != torch.int64:
        raise DataError(f"{name}: y is {_form(y)}; it must be int64 [{x.shape[0]}], one per node")
    if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < x.shape[0]:
        worst = int(edges.max()) if int(edges.min()) >= 0 else int(edges.min())
        raise DataError(
            f"{name}: edge_index contains node {worst}; nodes are numbered from 0 to "
            f"{x.shape[0] - 1}"
        )
    _check_both_directions(edges, int(x.shape[0]), name)
    nodes = view.get(mask)
    _check_mask(nodes, y, f"{name}: {mask}")
    lowest = int(y[nodes].min() if nodes is not None else y.min())
    if lowest < 0:
        raise DataError(f"{name}: y contains {lowest}; labels must be at least 0")


def _check_both_directions(edges: Tensor, num_nodes: int, name: str) -> None:
    forwards = torch.unique(edges[0] * num_nodes + edges[1])
    backwards = torch.unique(edges[1] * num_nodes + edges[0])
    if not torch.equal(forwards, backwards):
        alone = int(forwards[~torch.isin(forwards, backwards)][0])
        raise DataError(
            f"{name}: edge_index contains the edge from {alone // num_nodes} to "
            f"{alone % num_nodes} but not its reverse; torch_geometric.utils.to_undirected adds it"
        )


def _check_mask(nodes: object, y: Tensor, name: str) -> None:
    if nodes is None:
        return
    if not isinstance(nodes, Tensor) or nodes.shape != y.shape or nodes.dtype != torch.bool:
        shown = _form(nodes) if isinstance(nodes, Tensor) else type(nodes).__name__
        raise DataError(f"{name} is {shown}; it must be bool [{y.shape[0]}], one per node")
    if nodes.device != y.device:
        raise DataError(f"{name} is on {nodes.device}, y on {y.device}; move both to one")
    if not nodes.any():
        raise DataError(f"{name} is empty; leave it out if all nodes are to be used")


def _form(tensor: Tensor) -> str:
    return f"{dtype_name(tensor.dtype)} {list(tensor.shape)}"


class Fit(Protocol):
    """The type of `fit` of a `grb_check.SelfTrained`."""

    def __call__(self, data: Data, validation: Data | None = None) -> object: ...


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Settings of the training: full batch, cross-entropy, Adam.

    The learning rate is GRB's for every model. Without the warm-up and the clipped gradient, models
    such as a GIN without normalisation collapse in the first steps at this rate.
    """

    max_epochs: int = 300
    patience: int = 50  # epochs in which neither validation accuracy nor loss improves
    lr: float = 0.01  # GRB, Tables 6 to 10
    weight_decay: float = 0.0
    warmup_epochs: int = 100  # over which the learning rate grows linearly to `lr`
    max_gradient_norm: float = 1.0

    def __post_init__(self) -> None:
        for name in ("max_epochs", "patience", "warmup_epochs"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}; it must be at least 1")
        for name in ("lr", "weight_decay"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise UsageError(f"{name} is {value}; it must be at least 0 and finite")
        if not self.max_gradient_norm > 0:
            raise UsageError(f"max_gradient_norm is {self.max_gradient_norm}; it must be above 0")


@dataclass(frozen=True)
class TrainingRun:
    """The course of a training.

    Attributes:
        epochs: number of epochs run.
        best_epoch: the one whose state was kept, counted from 1.
        accuracy: its score: that of `score_and_loss` on the validation nodes, or one of `descend`.
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

    Gradients are of the training view, early stopping is by the validation nodes on the validation
    view; test nodes and their edges are in neither. The best epoch is that of the highest
    validation accuracy, or, where figures are recalls of a class, of its average precision: a model
    that never calls a node of a rare class has a high accuracy. Training ends when neither that nor
    the validation loss has improved for `patience` epochs, because the accuracy of some models does
    not change at first.

    Args:
        adapter: the module, on the device, its lazy parameters initialised.
        dataset: to train on.
        settings: of the training.
        seed: of the global random states, such as for dropout.
        device: of the module.

    Raises:
        ModelError: the module raises, returns an invalid output, or cannot be trained by gradients.
        DataError: there are no validation nodes.
    """
    if dataset.val.numel() == 0:
        raise DataError(
            f"dataset {dataset.name} has no validation nodes; early stopping needs some"
        )
    view = training_view(dataset).to(device)
    validation = validation_view(dataset).to(device)
    loss_of = loss_on(adapter.on_view(view), view, dataset.num_classes)
    bound = adapter.on_view(validation)
    measure = measure_on(bound, validation, dataset.num_classes, validation.val_mask)
    return descend(adapter, loss_of, measure, settings, seed=seed)


def fit_with(module: nn.Module | Wrapped, settings: TrainingSettings) -> Fit:
    """Return a `fit` for `grb_check.SelfTrained` that trains a module as `train` does.

    For factories whose model needs settings other than the harness's, such as a learning rate.

    Returns:
        A function of the training view and, if there is one, the validation view. Its seed is drawn
        from torch's global generator. Without a validation view, early stopping is by the training
        loss. It raises what `train` raises.
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
        loss_of: returns the differentiable loss; called once per epoch, in training mode.
        measure: returns a score to maximise, such as validation accuracy, by which the best epoch
            is chosen, and one to minimise, such as validation loss; called in evaluation mode.
            None: the training loss is used for both.
        settings: of the training.
        seed: of the global random states, such as for dropout.
        measure_every: epochs from one call of `measure` to the next; the last epoch has one too.
        measure_from: the first epoch whose state may be chosen.

    Raises:
        ModelError: the module cannot be trained by gradients, or the loss is not finite. The module
            is then left in its current state.
    """
    module = adapter.module
    parameters = [p for p in module.parameters() if p.requires_grad]
    if not parameters:
        raise _untrainable(adapter.name)
    optimizer = torch.optim.Adam(parameters, lr=settings.lr, weight_decay=settings.weight_decay)
    best_epoch, best_score = 0, -math.inf
    restore: Callable[[], None] | None = None
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
                restore = state_restorer(module)
            if low < lowest_loss:
                lowest_loss, improved = low, epoch
            if epoch - improved >= settings.patience:
                break
    if restore is not None:
        restore()
    return TrainingRun(epoch, best_epoch, best_score)


def adapter_of(module: nn.Module | Wrapped) -> Adapter:
    """Return the module behind the harness's interface, named by its class.

    Raises:
        ModelError: `module` is not a module, or no calling convention fits it.
    """
    inner = module.module if isinstance(module, Wrapped) else module
    if not isinstance(inner, nn.Module):
        raise ModelError(
            f"the model is a {type(inner).__name__}; give a torch.nn.Module, or "
            f"grb_check.wrap(module, forward=...)"
        )
    name = type(inner).__name__
    if isinstance(module, Wrapped):
        return Adapter(inner, name, module.convention)
    return Adapter(inner, name, detect_convention(inner, "forward", name))


def check_views(adapter: Adapter, data: Data, validation: Data | None, *, seed: int) -> int:
    """Check that the module can be trained on the views; return its number of outputs per node.

    The call also gives lazy parameters their shapes, and their first values from the seed.

    Raises:
        DataError: a view is not a labelled graph, or its mask is empty.
        ModelError: the module raises, returns an invalid output, has too few columns for the
            labels, or caches a graph.
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
            f"model {adapter.name} has {columns} outputs per node, but the labels go up to "
            f"{highest}; give it {highest + 1} outputs"
        )
    return columns


def drawn_seed() -> int:
    """Draw a seed from torch's global generator, which the harness seeds for each repeat."""
    return int(torch.randint(2**31, ()))


def loss_on(adapter: Adapter, view: Data, num_classes: int) -> Callable[[], Tensor]:
    """Return a function that computes the differentiable cross-entropy of the training nodes."""
    logits = logits_on(adapter, view, num_classes, "in training mode")
    nodes = counted(view, "train_mask")
    truth = view.y[nodes]
    return lambda: F.cross_entropy(logits()[nodes], truth)


def measure_on(
    adapter: Adapter, view: Data, num_classes: int, nodes: Tensor | slice
) -> Callable[[], tuple[float, float]]:
    """Return a function that measures score and loss on these nodes, see `score_and_loss`."""
    logits = logits_on(adapter, view, num_classes, "on the validation view")
    truth = view.y[nodes]

    def measure() -> tuple[float, float]:
        with torch.no_grad():
            return score_and_loss(logits()[nodes], truth, view.get("recall"))

    return measure


def score_and_loss(logits: Tensor, truth: Tensor, recall: Recall | None) -> tuple[float, float]:
    """Return the score that states and models are compared by, and the mean cross-entropy.

    Args:
        logits: float [t, c].
        truth: int64 [t].
        recall: what figures are of. The score is the average precision of its class then, if some
            of the labels are of the class; else accuracy.
    """
    accuracy, loss = accuracy_and_loss(logits, truth)
    if recall is None or not bool((truth == recall.positive).any()):
        return accuracy, loss
    scores = recall.scores(logits).double().cpu().numpy()
    positive = (truth == recall.positive).cpu().numpy()
    return average_precision(scores[positive], scores[~positive]), loss


def accuracy_and_loss(logits: Tensor, truth: Tensor) -> tuple[float, float]:
    """Return accuracy and mean cross-entropy of logits [n, c] for labels [n]."""
    accuracy = (logits.argmax(dim=1) == truth).float().mean()
    return float(accuracy), float(F.cross_entropy(logits, truth))


def counted(view: Data, mask: str) -> Tensor | slice:
    """Return the nodes of a mask; all nodes if there is no mask, or it holds all."""
    nodes: Tensor | None = view.get(mask)
    return slice(None) if nodes is None or bool(nodes.all()) else nodes


def logits_on(adapter: Adapter, view: Data, num_classes: int, when: str) -> Callable[[], Tensor]:
    """Return a function that calls the module on a view, whose graph is prepared once."""
    rows = view.x.shape[0]
    forward = adapter.on_topology(view.edge_index, rows)
    called = f"{adapter.convention} {when}"
    return lambda: check_output(
        forward(view.x),
        name=adapter.name,
        called=called,
        rows=rows,
        columns=num_classes,
        edge_index=view.edge_index,
        advice=DIVERGED,
    )


def _check_loss(loss: Tensor, name: str, epoch: int) -> None:
    if not torch.isfinite(loss):
        raise ModelError(
            f"model {name}: the training loss is {float(loss.detach())} in epoch {epoch}; it must "
            f"be finite, so check for divisions by zero, or lower the learning rate"
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
        f"model {name} cannot be trained: no gradient reaches any of its parameters; return a "
        f"finished model as grb_check.Trained(module); a model that trains itself needs fit(data), "
        f"or is returned as grb_check.SelfTrained(module, fit)"
    )
