"""Which preset a run starts from."""

import pytest

import bilink
from bilink.errors import ConfigError
from bilink.models.registry import FAMILIES, family
from bilink.runs.job import prepare
from bilink.training.presets import PRESETS, choose, preset, started


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("model", [*sorted(FAMILIES), "transe-reciprocal"])
def test_every_preset_trains_every_model_that_its_loss_allows(name, model, graph):
    def losses():
        epochs = 60 if name == "rgcn" else 9  # a step in an epoch of so small a graph
        run = bilink.train(graph, model, 4, preset=name, epochs=epochs, threads=1, patience=0)
        return [record["loss"] for record in run.history]

    if name == "rgcn":
        if model != "distmult":
            with pytest.raises(ConfigError, match=f"entities of a distmult, not of a {model}"):
                losses()
            return
        pytest.importorskip("torch", reason="torch is missing: pip install 'bilink[torch]'")
    softmax = name in ("softmax", "sampled")
    assert (preset(name, model).loss == "softmax") == softmax
    if softmax and not family(model).form.is_product:
        with pytest.raises(ConfigError, match="is no matrix product, so softmax training is not"):
            losses()
    else:
        first, *_, last = losses()
        assert last < 0.99 * first


def test_an_unknown_preset_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match="unknown preset 'best'; there are paper, margin"):
        preset("best", "complex")


@pytest.mark.parametrize(
    ("model", "said", "found"),
    [
        ("complex", {}, "softmax"),
        ("complex", {"epochs": 5}, "softmax"),
        ("complex", {"margin": 1.0}, "margin"),
        ("complex", {"negatives": 3}, "margin"),
        ("complex", {"loss": "logistic"}, "margin"),
        ("complex", {"loss": "softmax", "negatives": 3}, "sampled"),
        ("complex", {"negatives": "0"}, "softmax"),
        ("transe", {}, "softmax"),
        ("transe", {"constraint": "sphere"}, "margin"),
        ("transe", {"negatives": 3}, "margin"),
        ("transe-l1", {}, "margin"),
        ("transe-l1", {"regularization.entity": 0.1}, "margin"),
        ("complex", {"margin": 1.0, "regularization.entity": 0.1}, "margin"),
        ("complex", {"regularization.kind": "n3"}, "softmax"),
        ("transe-l1", {"regularization": {"kind": "dura"}}, "softmax"),
        ("transe-l1", {"dropout.entity": 0.1}, "softmax"),
        ("complex", {"batch_size": 100}, "softmax"),
        ("distmult", {"dropout": {"edges": 0.1}}, "rgcn"),
        ("distmult", {"bases": 3, "negatives": 2}, "rgcn"),
        ("distmult", {"loss": "rgcn", "negatives": 2}, "rgcn"),
    ],
)
def test_what_is_said_decides(model, said, found):
    assert choose(model, 100, None, said) == found


def test_options_of_both_engines_are_refused_even_with_their_default_values():
    with pytest.raises(ConfigError, match=r"margin is of margin training and dropout\.entity of"):
        choose("complex", 100, None, {"margin": 1.0, "dropout.entity": 0.1})


def test_what_means_nothing_of_softmax_training_does_not_choose_it():
    said = {"device": "numpy", "regularization.kind": "l2"}
    assert choose("transe-l1", 100, None, said) == "margin"
    for zero in (0, 0.0, "0", "0.0"):
        said = {"rounding": zero, "dropout": {"entity": zero}, "margin": 2.0}
        assert choose("complex", 100, None, said) == "margin"


def test_a_reciprocal_model_is_trained_as_its_model():
    for name in PRESETS:
        assert preset(name, "transe-reciprocal") == preset(name, "transe")


def test_a_large_graph_gets_a_sample_of_negatives():
    atlas = bilink.load_graph("atlas")
    assert choose("complex", 100, atlas, {}) == "softmax"
    assert choose("complex", 10**6, atlas, {}) == "sampled"


def test_other_questions_than_weighted_ones_come_in_no_parts():
    sampled = preset("sampled", "complex")
    assert sampled.answers_per_query > 0
    assert sampled.with_options({"queries": "per-fact"}).answers_per_query == 0
    with pytest.raises(ConfigError, match="answers_per_query"):
        sampled.with_options({"queries": "per-fact", "answers_per_query": 2})


def test_a_preset_can_be_named_and_changed():
    job = prepare("atlas", "hole", 8, {"epochs": 3}, preset="paper")
    training = job.config.training
    assert (training.loss, training.negatives, training.epochs) == ("sigmoid-margin", 1, 3)


@pytest.mark.parametrize(
    ("given", "found"),  # epochs, of them over all entities, rounding
    [
        ({}, (40, 10, 0.004)),
        ({"epochs": 20}, (20, 5, 0.004)),
        ({"epochs": 1}, (1, 0, 0.0)),
        ({"minutes": 3}, (40, 0, 0.0)),  # which may end it before them
        ({"negatives": 500}, (40, 0, 0.0)),
        ({"full_epochs": 3}, (40, 3, 0.004)),
        ({"rounding": 0}, (40, 10, 0.0)),
    ],
)
def test_what_is_given_has_consequences(given, found):
    config = started("sampled", "complex", given)
    assert (config.epochs, config.full_epochs, config.rounding) == found
    assert config.decay**config.epochs == pytest.approx(0.15, rel=0.01)


def test_a_decay_that_is_given_stays():
    assert started("sampled", "complex", {"epochs": 5, "decay": 0.9}).decay == 0.9
    assert started("margin", "transe", {"epochs": 5}).decay == 1.0
