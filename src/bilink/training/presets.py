"""Recipes by name, and the one that a graph gets by default.

| preset | what it is |
| --- | --- |
| paper | what Wang et al. (2018) ran: hinge, one random negative, Adagrad, their initial values |
| margin | margin training with more negatives and, but for distances, entities in the unit ball |
| softmax | cross-entropy over all entities, each distinct query once; of products with a penalty |
| sampled | the same over negatives that a batch shares, and over all entities in the last epochs |
| rgcn | R-GCN: a graph convolution makes the entities of a DistMult |

Without a preset, the given options decide (``margin=2`` means margin training), and else the graph
and the model: see ``choose``.  How strong the penalty should be differs from graph to graph by a
factor of thirty, so it is tried out (``runs/tuning.py``).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from bilink.data.graph import Graph
from bilink.errors import ConfigError
from bilink.models.registry import Family, family
from bilink.training.config import (
    Config,
    MarginConfig,
    RgcnConfig,
    SoftmaxConfig,
    belongs_to,
    flat,
    option_help,
)

PRESETS = ("paper", "margin", "softmax", "sampled", "rgcn")
DECODERS = {"rgcn": "distmult"}  # presets that are used like models, and what they leave behind

# As in the authors' code; what Table 4 of the paper says is left to the user.
_PAPER = {"init": "paper", "epsilon": 1e-7, "coordinates": "paper"}
_PAPER_TRANSE = {**_PAPER, "steps": "triple", "constraint": "ball-all"}
_PAPERS: dict[str, dict[str, Any]] = {
    "hole": {**_PAPER, "loss": "sigmoid-margin"},
    "transe": _PAPER_TRANSE,
    "transe-l1": _PAPER_TRANSE,
}
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
_SOFTMAX = {
    "loss": "softmax",
    "init_scale": 1e-3,
    "queries": "weighted",
    "batch_size": 400,
    "patience": 0,  # the learning rate falls with the epochs, and the last ones gain most
    "keep": "last",
}
_N3 = {"learning_rate": 0.3}
_DURA = {"learning_rate": 0.15, "init_scale": 0.05}
PENALTIES = (0.003, 0.01, 0.03, 0.1)  # weights that are worth a trial
USUAL_PENALTY = 0.03
_FINAL_RATE = 0.15  # of the learning rate, after the last epoch
_RGCN = {"loss": "rgcn", "epochs": 300, "learning_rate": 0.05, "batch_size": 30_000}

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
        options: Mapping[str, Any] = _PAPERS.get(base, _PAPER)
    elif name == "margin":
        options = _MARGIN.get(base, _PRODUCT)
    elif name == "rgcn":
        options = _RGCN
    else:
        options = _softmax(found, sampled=name == "sampled")
    return MarginConfig().with_options(options)


def started(name: str, model: str, given: Mapping[str, Any]) -> Config:
    """A preset with the options that are given, and what follows from these.

    In fewer or more epochs the learning rate falls as far, and as large a share of them is over all
    entities; none is if the time is limited, or the number of negatives is given.
    """
    whole, keys = preset(name, model), dict(flat(given))
    if not isinstance(whole, SoftmaxConfig):
        return whole.with_options(given)
    has_full = whole.full_epochs > 0 and not {"minutes", "negatives"} & keys.keys()
    kept = whole.full_epochs if has_full else 0
    asked = replace(whole, full_epochs=kept, rounding=0.0).with_options(given)
    if not isinstance(asked, SoftmaxConfig):
        return asked
    implied: dict[str, Any] = {}
    if "decay" not in keys:
        implied["decay"] = whole.decay ** (whole.epochs / asked.epochs)
    if "full_epochs" not in keys:
        implied["full_epochs"] = round(kept * asked.epochs / whole.epochs)
    full = implied.get("full_epochs", asked.full_epochs)
    if "rounding" not in keys and full and not asked.label_smoothing:
        implied["rounding"] = whole.rounding
    return replace(asked, **implied)


def _softmax(found: Family, sampled: bool) -> dict[str, Any]:
    size: dict[str, Any] = {"negatives": 0, "epochs": 60}
    if sampled:
        size = {"negatives": 1000, "answers_per_query": 4, "rounding": 0.004}
        size |= {"epochs": 40, "full_epochs": 10}
    size["decay"] = round(_FINAL_RATE ** (1 / size["epochs"]), 4)
    if found.form.is_distance:
        plain = {"distance": "plain"} if found.form.is_product else {}
        return {**_SOFTMAX, **plain, **size}
    kind, options = ("dura", _DURA) if found.base == "rescal" else ("n3", _N3)
    weights = _weights(kind, USUAL_PENALTY)
    return {**_SOFTMAX, "regularization.kind": kind, **options, **size, **weights}


def _weights(kind: str, penalty: float) -> dict[str, float]:
    """The options of a penalty that is stated for N3; one of DURA is about as strong."""
    weight = penalty if kind == "n3" else min(max(2 * penalty, 0.02), 0.1)
    return {"regularization.entity": weight, "regularization.relation": weight}


class Tuning(NamedTuple):
    """What differs from graph to graph."""

    penalty: float = USUAL_PENALTY  # the weight of N3; that of DURA is about as strong
    relation_prediction: float = 0.0


def with_tuning(config: Config, model: str, tuning: Tuning) -> Config:
    """The same but for the weight of its penalty and of relation prediction, if it has them."""
    kind = getattr(config.regularization, "kind", "l2")
    if not isinstance(config, SoftmaxConfig) or kind == "l2":
        return config
    options = _weights(kind, tuning.penalty)
    if family(model).base != "rescal":  # whose relations are so large that it takes long
        options["relation_prediction"] = tuning.relation_prediction
    return config.with_options(options)


def decoder(model: str, preset: str | None, given: Mapping[str, Any]) -> tuple[str, str | None]:
    """The model and the preset that a name stands for: R-GCN leaves a DistMult behind."""
    name = model.lower()
    if name not in DECODERS:
        return model, preset
    if preset not in (None, name) or given.get("loss", name) != name:
        raise ConfigError(f"{name} is a training of its own; leave out the preset and the loss")
    return DECODERS[name], name


def _is_margin(model: str, given: Mapping[str, Any]) -> bool:
    """Whether the given options ask for margin training, or else the model does."""
    if "loss" in given:
        return bool(given["loss"] != "softmax")
    options = dict(flat(given))
    margin, softmax = (
        sorted(
            k
            for k in options
            if belongs_to(k) - {RgcnConfig} == {kind} and not _is_default(k, options)
        )
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
    own = any(belongs_to(key) == {RgcnConfig} for key in dict(flat(given)))
    if given.get("loss") == "rgcn" or (own and "loss" not in given):
        return "rgcn"
    if _is_margin(model, given):
        return "margin"
    if "negatives" in given:
        return "softmax" if str(given["negatives"]) == "0" else "sampled"
    if graph is None:
        return "softmax"
    width = family(model).widths(dim)[0]
    products = 6.0 * 2 * len(graph.train) * len(graph.entities) * width
    return "softmax" if products <= _AFFORDABLE else "sampled"
