"""Recipes by name, and the one that a graph gets when nobody says otherwise.

| preset | what it is |
| --- | --- |
| paper | the framework of Wang et al. (2018): hinge, one random negative, Adagrad |
| margin | margin training with more negatives and, but for distances, entities in the unit ball |
| softmax | cross-entropy over all entities, each distinct question once; of products with N3 |
| sampled | the same over negatives that a batch shares; for graphs with many questions |

Without a preset, what is said decides (``margin=2`` means margin training), and else the graph and
the model: see ``choose``.  The settings were found on the validation splits of WN18, FB15k-237, the
atlas and UMLS.
"""

from collections.abc import Mapping
from typing import Any

from bilink.data.graph import Graph
from bilink.errors import ConfigError
from bilink.models.inner import DOT, MANHATTAN, SQUARED_DISTANCE
from bilink.models.reciprocal import SUFFIX
from bilink.models.registry import Family, family
from bilink.training.config import MARGIN_ONLY, SOFTMAX_ONLY, TrainingConfig, flat

PRESETS = ("paper", "margin", "softmax", "sampled")

_MORE = {"negatives": 5, "corrupt": "both"}
_PRODUCT = {**_MORE, "loss": "sigmoid-margin", "margin": 0.5, "constraint": "ball"}
_MARGIN: dict[str, dict[str, Any]] = {
    "transe": {**_MORE, "margin": 0.5, "constraint": "sphere"},
    "transe-l1": {**_MORE, "margin": 2.0},
    "rotate": {**_MORE, "margin": 2.0},
}
_SOFTMAX = {"loss": "softmax", "init_scale": 1e-3, "questions": "weighted", "batch_size": 500}
_N3 = {
    "learning_rate": 0.3,
    "regularization.kind": "n3",
    "regularization.entity": 0.02,
    "regularization.relation": 0.02,
}

# Products of floats in an epoch over all entities from which a sample of them is taken instead:
# about half a minute on two cores.
_AFFORDABLE = 4e12

_SAYS_SOFTMAX = {*SOFTMAX_ONLY, "batch_size"}  # if not with the value that means nothing of it


def preset(name: str, model: str) -> TrainingConfig:
    """The settings of a preset for a model."""
    if name not in PRESETS:
        raise ConfigError(f"unknown preset {name!r}; there are {', '.join(PRESETS)}")
    found = family(model)
    base = found.name.removesuffix(SUFFIX)
    if name == "paper":
        options: Mapping[str, Any] = {"loss": "sigmoid-margin"} if base == "hole" else {}
    elif name == "margin":
        options = _MARGIN.get(base, _PRODUCT)
    else:
        options = _softmax(found, sampled=name == "sampled")
    return TrainingConfig().with_options(options)


def _softmax(found: Family, sampled: bool) -> dict[str, Any]:
    size = {"negatives": 0, "epochs": 100}
    if sampled:
        size = {"negatives": 1000, "epochs": 60, "together": 4}
    if found.comparison is DOT:
        return {**_SOFTMAX, **_N3, **size, "decay": 0.95 if sampled else 0.97}
    plain = {"distance": "plain"} if found.comparison is SQUARED_DISTANCE else {}
    return {**_SOFTMAX, **plain, **size}


def _is_margin(model: str, said: Mapping[str, Any]) -> bool:
    if "loss" in said:
        return bool(said["loss"] != "softmax")
    options = dict(flat(said))
    margin = sorted(options.keys() & set(MARGIN_ONLY))
    softmax = sorted(key for key in options.keys() & _SAYS_SOFTMAX if _says(key, options[key]))
    if margin and softmax:
        raise ConfigError(
            f"{margin[0]} is of margin training and {softmax[0]} of softmax training; leave one out"
        )
    if str(said.get("negatives")) == "0" or softmax:
        return False
    return bool(margin) or "negatives" in said or family(model).comparison is MANHATTAN


def _says(key: str, value: Any) -> bool:
    """Whether an option of softmax training has another value than that which means nothing."""
    plain = SOFTMAX_ONLY.get(key)
    try:
        return bool(type(plain)(value) != plain) if plain is not None else True
    except (TypeError, ValueError):
        return True  # which is complained about elsewhere


def choose(model: str, dim: int, graph: Graph | None, said: Mapping[str, Any]) -> str:
    """The name of the preset for a model, a graph and the options that the user has said.

    A softmax over all entities where that is affordable, and over a sample of them where it is not;
    a margin where scores are no matrix product.
    """
    if _is_margin(model, said):
        return "margin"
    if "negatives" in said:
        return "softmax" if str(said["negatives"]) == "0" else "sampled"
    if graph is None:
        return "softmax"
    width = family(model).widths(dim)[0]
    products = 6.0 * 2 * len(graph.train) * len(graph.entities) * width
    return "softmax" if products <= _AFFORDABLE else "sampled"
