import pytest

from bilink.errors import ConfigError
from bilink.training.config import (
    MarginConfig,
    RgcnConfig,
    SoftmaxConfig,
    option_help,
    parse_options,
    read_config,
)


def test_options_from_the_command_line_get_their_types():
    texts = ["epochs=10", "learning_rate=1", "regularization.entity=1e-3", "filter_negatives=no"]
    config = MarginConfig().with_options(parse_options(texts))
    assert (config.epochs, config.learning_rate) == (10, 1.0)
    assert config.regularization.entity == 1e-3
    assert config.filter_negatives is False


def test_a_config_survives_the_way_through_plain_values():
    config = MarginConfig(epochs=3).with_options({"regularization": {"relation": 0.5}})
    assert MarginConfig().with_options(config.to_dict()) == config


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epoch": 5}, "did you mean 'epochs'"),
        ({"regularization.entities": 5}, "did you mean 'regularization.entity'"),
        ({"regularization": 5}, "unknown option 'regularization'"),
        ({"epochs.x": 5}, "unknown option"),
        ({"epochs": "ten"}, "epochs must be a whole number"),
        ({"epochs": 0}, "at least 1"),
        ({"epochs": True}, "whole number"),
        ({"learning_rate": "nan"}, "must be positive"),
        ({"learning_rate": 0}, "must be positive"),
        ({"margin": -1}, "at least 0"),
        ({"margin": "inf"}, "at least 0"),
        ({"decay": 1.5}, "at most 1"),
        ({"loss": "hinge"}, "one of margin, sigmoid-margin, logistic, softmax"),
        ({"regularization.entity": -0.1}, "at least 0"),
        ({"filter_negatives": "maybe"}, "true or false"),
        ({"seed": -1}, "at least 0"),
    ],
)
def test_impossible_options_are_refused_with_a_reason(options, message):
    with pytest.raises(ConfigError, match=message):
        MarginConfig().with_options(options)


@pytest.mark.parametrize("text", ["epochs", "=5", "epochs 5"])
def test_options_without_a_value_are_refused(text):
    with pytest.raises(ConfigError, match="key=value"):
        parse_options([text])


def test_every_option_has_a_meaning_and_can_be_set():
    for config in (MarginConfig(), SoftmaxConfig(), RgcnConfig()):
        for key, default, meaning in option_help(config):
            assert meaning
            assert config.with_options({key: default}) == config


def test_another_loss_asks_for_the_other_engine_and_keeps_what_both_have():
    config = MarginConfig(epochs=7, margin=3.0).with_options({"loss": "softmax"})
    assert config == SoftmaxConfig(epochs=7)
    assert config.with_options({"loss": "logistic"}) == MarginConfig(epochs=7, loss="logistic")


def test_an_option_of_other_trainings_is_refused_by_their_names():
    with pytest.raises(ConfigError, match="bases is an option of R-GCN training and does not go"):
        SoftmaxConfig().with_options({"bases": 3})
    with pytest.raises(ConfigError, match="batch_size is an option of softmax and R-GCN training"):
        MarginConfig().with_options({"batch_size": 3})
    config = RgcnConfig(bases=3).with_options({"dropout": {"edges": 0.1}})
    assert read_config(config.to_dict()) == config


def test_a_file_of_version_0_1_0_has_the_options_of_both_engines():
    old = {"loss": "softmax", "margin": 1.0, "corrupt": "random", "device": "numpy"}
    old |= {"questions": "weighted", "together": 4, "grain": 0.01, "negatives": 0}
    read = read_config(old)
    wanted = {"queries": "weighted", "answers_per_query": 4, "rounding": 0.01}
    assert read == SoftmaxConfig(**wanted)
    assert read_config({"loss": "margin", "batch_size": 500, "grain": 0.0}) == MarginConfig()
    assert MarginConfig().coordinates == "training"  # so that an old run of HolE goes on as it was
    with pytest.raises(ConfigError, match="margin is an option of margin training"):
        read_config({**old, "margin": 2.0})
