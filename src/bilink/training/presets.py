"""Recipes by name, and the one that a graph gets by default.

| preset | what it is |
| --- | --- |
| paper | the framework of Wang et al. (2018): hinge, one random negative, Adagrad |
| margin | margin training with more negatives and, but for distances, entities in the unit ball |
| softmax | cross-entropy over all entities, each distinct query once; of products with N3 |
| sampled | the same over negatives that a batch shares; for graphs with many queries |

Without a preset, the given options decide (``margin=2`` means margin training), and else the graph
and the model: see ``choose``.  The settings were found on the validation splits of WN18, FB15k-237,
the atlas and UMLS.
"""

from collections.abc import Mapping
from typing import Any

from bilink.data.graph import Graph
from bilink.errors import ConfigError
from bilink.models.registry import Family, family
from bilink.training.config import (
    Config,
    MarginConfig,
    SoftmaxConfig,
    belongs_to,
    flat,
    option_help,
)

PRESETS = ("paper", "margin", "softmax", "sampled")

_MORE = {"negatives": 5, "corrupt": "both"}
_PRODUCT = {**_MORE, "loss": "sigmoid-margin", "margin": 0.5, "constraint": "ball"}
_MARGIN: dict[str, dict[str, Any]] = {
    "transe": {**_MORE, "margin": 0.5, "constraint": "sphere"},
    "transe-l1": {**_MORE, "margin": 2.0},
    "rotate": {**_MORE, "margin": 2.0},
    "transh": {**_MORE, "margin": 0.5, "constraint": "sphere"},
    "transr": {**_MORE, "margin": 0.5, "constraint": "sphere"},
    "transg": {**_MORE, "margin": 1.0},
    "ntn": {**_MORE, "margin": 1.0, "regularization.relation": 1e-4},
}
_SOFTMAX = {"loss": "softmax", "init_scale": 1e-3, "queries": "weighted", "batch_size": 500}
_N3 = {
    "learning_rate": 0.3,
    "regularization.kind": "n3",
    "regularization.entity": 0.02,
    "regularization.relation": 0.02,
}

# Products of floats in an epoch over all entities from which a sample of them is taken instead:
# about half a minute on two cores.
_AFFORDABLE = 4e12


def preset(name: str, model: str) -> Config:
    """The settings of a preset for a model."""
    if name not in PRESETS:
        raise ConfigError(f"unknown preset {name!r}; there are {', '.join(PRESETS)}")
    found = family(model)
    base = found.base
    if name == "paper":
        options: Mapping[str, Any] = {"loss": "sigmoid-margin"} if base == "hole" else {}
    elif name == "margin":
        options = _MARGIN.get(base, _PRODUCT)
    else:
        options = _softmax(found, sampled=name == "sampled")
    return MarginConfig().with_options(options)


def _softmax(found: Family, sampled: bool) -> dict[str, Any]:
    size = {"negatives": 0, "epochs": 100}
    if sampled:
        size = {"negatives": 1000, "epochs": 60, "answers_per_query": 4}
    if not found.form.is_distance:
        return {**_SOFTMAX, **_N3, **size, "decay": 0.95 if sampled else 0.97}
    plain = {"distance": "plain"} if found.form.is_product else {}
    return {**_SOFTMAX, **plain, **size}


def _is_margin(model: str, given: Mapping[str, Any]) -> bool:
    """Whether the given options ask for margin training, or else the model does."""
    if "loss" in given:
        return bool(given["loss"] != "softmax")
    options = dict(flat(given))
    margin, softmax = (
        sorted(k for k in options if belongs_to(k) == {kind} and not _is_default(k, options))
        for kind in (MarginConfig, SoftmaxConfig)
    )
    if margin and softmax:
        raise ConfigError(
            f"{margin[0]} is of margin training and {softmax[0]} of softmax training; leave one out"
        )
    if str(given.get("negatives")) == "0" or softmax:
        return False
    return bool(margin) or "negatives" in given or not family(model).form.is_product


def _is_default(key: str, options: Mapping[str, Any]) -> bool:
    """Whether an option of softmax training has the value that means nothing."""
    default = {name: value for name, value, _ in option_help(SoftmaxConfig())}.get(key)
    if default is None or key == "batch_size":
        return False
    try:
        return float(default) == float(options[key])
    except (TypeError, ValueError):
        return default == options[key]


def choose(model: str, dim: int, graph: Graph | None, given: Mapping[str, Any]) -> str:
    """The name of the preset for a model, a graph and the options that are given.

    A softmax over all entities where that is affordable, and over a sample of them where it is not;
    a margin where scores are no matrix product.
    """
    if _is_margin(model, given):
        return "margin"
    if "negatives" in given:
        return "softmax" if str(given["negatives"]) == "0" else "sampled"
    if graph is None:
        return "softmax"
    width = family(model).widths(dim)[0]
    products = 6.0 * 2 * len(graph.train) * len(graph.entities) * width
    return "softmax" if products <= _AFFORDABLE else "sampled"
