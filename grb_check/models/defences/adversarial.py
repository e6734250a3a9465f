"""Adversarial training of the reference models: GRB's general defence AT."""

from __future__ import annotations

from typing import Final

from torch import nn
from torch_geometric.data import Data

from grb_check.models.defences.rgcn import rgcn
from grb_check.models.published import hyper_parameters
from grb_check.models.reference.appnp import appnp
from grb_check.models.reference.gat import gat
from grb_check.models.reference.gcn import gcn
from grb_check.models.reference.gin import gin
from grb_check.models.reference.sage import sage
from grb_check.models.reference.sgcn import sgcn
from grb_check.models.reference.tagcn import tagcn
from grb_check.victims.wrappers import SelfTrained

MANY: Final = 100
FEW: Final = 60  # for models whose iterations cost more, and which are robust sooner


def adversarially_trained(
    module: nn.Module, title: str, dataset: str, iterations: int = MANY
) -> SelfTrained:
    """An untrained module that will be trained by `grb_check.adversarial_training`.

    Args:
        module: to train.
        title: of the model in GRB's tables, which give its learning rate.
        dataset: its name; on GRB's own the attack's budget follows the published one, see
            `grb_check.training.adversarial.settings_for`.
        iterations: under attack, at most.
    """

    def fit(data: Data, validation: Data | None = None) -> object:
        # Attacks know these models, which therefore cannot know attacks when they are loaded.
        from grb_check.training.adversarial import adversarial_training, settings_for

        lr = hyper_parameters(title, dataset)["lr"]
        settings = settings_for(dataset, int(data.x.shape[1]), lr=lr, iterations=iterations)
        return adversarial_training(module, data, validation, settings=settings)

    return SelfTrained(module, fit)


def gcn_at(num_features: int, num_classes: int, dataset: str = "") -> SelfTrained:
    """`gcn`, to be trained adversarially: GRB's GCN+AT."""
    return adversarially_trained(gcn(num_features, num_classes, dataset), "GCN", dataset)


def gat_at(num_features: int, num_classes: int, dataset: str = "") -> SelfTrained:
    """`gat`, to be trained adversarially: GRB's GAT+AT."""
    return adversarially_trained(gat(num_features, num_classes, dataset), "GAT", dataset, FEW)


def gin_at(num_features: int, num_classes: int, dataset: str = "") -> SelfTrained:
    """`gin`, to be trained adversarially: GRB's GIN+AT."""
    return adversarially_trained(gin(num_features, num_classes, dataset), "GIN", dataset)


def appnp_at(num_features: int, num_classes: int, dataset: str = "") -> SelfTrained:
    """`appnp`, to be trained adversarially: GRB's APPNP+AT."""
    return adversarially_trained(appnp(num_features, num_classes, dataset), "APPNP", dataset)


def tagcn_at(num_features: int, num_classes: int, dataset: str = "") -> SelfTrained:
    """`tagcn`, to be trained adversarially: GRB's TAGCN+AT."""
    return adversarially_trained(tagcn(num_features, num_classes, dataset), "TAGCN", dataset)


def sage_at(num_features: int, num_classes: int, dataset: str = "") -> SelfTrained:
    """`sage`, to be trained adversarially: GRB's SAGE+AT."""
    return adversarially_trained(sage(num_features, num_classes, dataset), "SAGE", dataset)


def sgcn_at(num_features: int, num_classes: int, dataset: str = "") -> SelfTrained:
    """`sgcn`, to be trained adversarially: GRB's SGCN+AT."""
    return adversarially_trained(sgcn(num_features, num_classes, dataset), "SGCN", dataset, FEW)


def rgcn_at(num_features: int, num_classes: int, dataset: str = "") -> SelfTrained:
    """`rgcn`, to be trained adversarially: GRB's R-GCN+AT."""
    return adversarially_trained(rgcn(num_features, num_classes, dataset), "R-GCN", dataset, FEW)
