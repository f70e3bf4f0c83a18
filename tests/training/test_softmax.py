"""Softmax training against finite differences of losses that are written out plainly."""

from dataclasses import replace

import numpy as np
import pytest

import bilink
import naive
from bilink.data.graph import Graph
from bilink.data.loading import load_graph
from bilink.data.vocabulary import Vocabulary
from bilink.errors import ConfigError
from bilink.models.model import Model
from bilink.models.registry import FAMILIES
from bilink.training.batches import queries_of
from bilink.training.config import MarginConfig
from bilink.training.softmax import SoftmaxEngine

TRIPLES = [(0, 0, 1), (0, 0, 2), (0, 1, 3), (2, 1, 4), (3, 0, 3), (4, 1, 1)]
BILINEAR = sorted(name for name, found in FAMILIES.items() if found.form.is_product)


@pytest.fixture(scope="module")
def atlas():
    return load_graph("atlas")


def small_graph(triples=TRIPLES, n_entities=5):
    none = np.empty((0, 3))
    return Graph(
        "small",
        Vocabulary("entity", tuple("abcdefgh"[:n_entities])),
        Vocabulary("relation", ("r", "s")),
        np.array(triples),
        none,
        none,
    )


def random_model(name, dim=4, n_entities=5, seed=0):
    random = np.random.default_rng(seed)
    model = Model.empty(name, dim, n_entities, 2)
    for array in (model.entities, model.relations):
        array[:] = random.normal(size=array.shape, scale=0.7)
    return model


@pytest.fixture(autouse=True)
def rounding_always_pays(monkeypatch):
    """Also on graphs so small that it does not."""
    for module in ("config", "tables"):
        monkeypatch.setattr(f"bilink.training.{module}.ROUNDING_PAYS", 0)


def config_of(**options):
    plain = {"loss": "softmax", "negatives": 0, "optimizer": "sgd", "learning_rate": 1.0}
    return MarginConfig().with_options({**plain, "threads": 2, **options})


def step_of(model, graph, config):
    """The parameters' negative movement in one epoch: their gradients, with SGD and one batch."""
    before = (model.entities.copy(), model.relations.copy())
    SoftmaxEngine(model, graph, config).run_epoch(0)
    after = (model.entities, model.relations)
    return [a.astype(float) - b for a, b in zip(before, after, strict=True)]


def scores_of(name, entities, relations):
    """score[side][r][h, t], where a reciprocal model has another relation for the head."""
    base, is_reciprocal = name.removesuffix("-reciprocal"), name.endswith("-reciprocal")
    halves = np.split(relations, 2, axis=1) if is_reciprocal else (relations, relations)
    found = {}
    for side, rows in zip(("tail", "head"), halves, strict=True):
        shown, forms = FAMILIES[base].export(entities, rows)
        flip = is_reciprocal and side == "head"
        found[side] = [
            np.array(
                [
                    [naive.score(base, *((t, r, h) if flip else (h, r, t))) for t in shown]
                    for h in shown
                ]
            )
            for r in forms
        ]
    return found


def reference_loss(name, entities, relations, triples, config):
    """The objective of one batch that holds all queries."""
    scores = scores_of(name, entities, relations)
    plain = config.distance == "plain"
    asked = {}
    for h, r, t in triples:
        asked.setdefault(("tail", h, r), []).append(t)
        asked.setdefault(("head", t, r), []).append(h)
    facts = 2 * len(triples)
    total = 0.0
    for (side, given, r), answers in asked.items():
        row = scores[side][r][given] if side == "tail" else scores[side][r][:, given]
        row = -np.sqrt(-row) if plain else row
        log_p = row - np.log(np.exp(row).sum())
        target = np.full(len(row), config.label_smoothing / len(row))
        target[answers] += (1 - config.label_smoothing) / len(answers)
        weight = 1 / len(asked) if config.queries == "distinct" else len(answers) / facts
        total -= weight * (target @ log_p)
    return total


def penalty(name, entities, relations, triples, config):
    """The penalties of one batch, a mean over the questions of each fact."""
    kind = config.regularization.kind
    weights = config.regularization.entity, config.regularization.relation

    def size(row, of_pairs):
        if kind == "l2":
            return (row @ row) / 2
        if kind == "dura":
            return row @ row
        if of_pairs:
            a, b = np.split(row, 2)
            return (np.sqrt(a**2 + b**2) ** 3).sum()
        return (abs(row) ** 3).sum()

    total = 0.0
    for h, r, t in triples:
        for given, answer, side in ((h, t, "tail"), (t, h, "head")):
            total += weights[0] * size(entities[given], name == "complex")
            if kind == "dura":
                matrix = FAMILIES[name].matrix(relations[r])
                query = matrix.T @ entities[given] if side == "tail" else matrix @ entities[given]
                total += weights[1] * size(query, False)
            else:
                total += weights[0] * size(entities[answer], name == "complex")
                total += weights[1] * size(relations[r], name == "complex")
    return total / (2 * len(triples))


def relation_loss(name, entities, relations, triples):
    """The cross-entropy of the relation, given head and tail."""
    scores = scores_of(name, entities, relations)["tail"]
    total = 0.0
    for h, r, t in triples:
        row = np.array([scores[k][h, t] for k in range(len(relations))])
        total -= row[r] - np.log(np.exp(row).sum())
    return total / len(triples)


def check_step(model, graph, config, loss):
    entities, relations = (x.astype(float) for x in (model.entities, model.relations))
    moved = step_of(model, graph, config)
    for array, gradients in zip((entities, relations), moved, strict=True):
        expected = naive.numeric_gradient(lambda: loss(entities, relations), array, step=1e-5)
        np.testing.assert_allclose(gradients, expected, atol=3e-5, rtol=1e-3)


@pytest.mark.parametrize("name", [*BILINEAR, "complex-reciprocal", "hole-reciprocal"])
def test_a_step_of_sgd_is_the_gradient_of_the_cross_entropy(name):
    graph, model = small_graph(), random_model(name)
    config = config_of()
    check_step(model, graph, config, lambda e, r: reference_loss(name, e, r, TRIPLES, config))


@pytest.mark.parametrize(
    "options",
    [
        {"queries": "distinct"},
        {"queries": "weighted"},
        {"queries": "distinct", "negatives": 5},
        {"queries": "weighted", "negatives": 5},
        {"queries": "weighted", "answers_per_query": 1},
        {"queries": "weighted", "answers_per_query": 1, "negatives": 5},
        {"queries": "weighted", "rounding": 1e-6},
        {"queries": "weighted", "rounding": 1e-6, "negatives": 5},
        {"label_smoothing": 0.2},
        {"label_smoothing": 0.2, "queries": "distinct"},
    ],
    ids=str,
)
def test_targets(options):
    graph, model, config = small_graph(), random_model("complex"), config_of(**options)
    check_step(model, graph, config, lambda e, r: reference_loss("complex", e, r, TRIPLES, config))


@pytest.mark.parametrize("name", ["transe", "rotate"])
@pytest.mark.parametrize(
    "options",
    [{}, {"negatives": 5}, {"rounding": 1e-6}, {"negatives": 5, "rounding": 1e-6}],
    ids=str,
)
def test_the_softmax_may_see_plain_distances(name, options):
    graph, model = small_graph(), random_model(name)
    config = config_of(distance="plain", **options)
    check_step(model, graph, config, lambda e, r: reference_loss(name, e, r, TRIPLES, config))


@pytest.mark.parametrize("kind", ["l2", "n3", "dura"])
@pytest.mark.parametrize("name", ["complex", "rescal", "distmult"])
@pytest.mark.parametrize("negatives", [0, 5])
def test_penalties(name, kind, negatives):
    graph, model = small_graph(), random_model(name)
    config = config_of(
        negatives=negatives,
        **{
            "regularization.kind": kind,
            "regularization.entity": 0.3,
            "regularization.relation": 0.1,
        },
    )
    check_step(
        model,
        graph,
        config,
        lambda e, r: (
            reference_loss(name, e, r, TRIPLES, config) + penalty(name, e, r, TRIPLES, config)
        ),
    )


@pytest.mark.parametrize("name", ["complex", "rescal", "cp", "complex-reciprocal"])
@pytest.mark.parametrize("queries", ["per-fact", "weighted"])
def test_relation_prediction_adds_its_cross_entropy(name, queries):
    graph, model = small_graph(), random_model(name)
    config = config_of(relation_prediction=0.5, queries=queries)
    check_step(
        model,
        graph,
        config,
        lambda e, r: (
            reference_loss(name, e, r, TRIPLES, config) + 0.5 * relation_loss(name, e, r, TRIPLES)
        ),
    )


@pytest.mark.parametrize("name", BILINEAR)
def test_sampling_all_entities_is_the_full_softmax(name):
    graph = small_graph()
    full, sampled = random_model(name), random_model(name)
    for a, b in zip(
        step_of(full, graph, config_of()), step_of(sampled, graph, config_of(negatives=5)),
        strict=True,
    ):  # fmt: skip
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("answers_per_query", [0, 1, 2, 3])
def test_a_question_with_many_answers_may_come_in_parts(answers_per_query):
    triples = [(0, 0, t) for t in range(1, 8)] + [(1, 0, 0), (1, 1, 0), (1, 1, 7)]
    asked = queries_of(small_graph(triples, n_entities=8), answers_per_query)
    counts = np.diff(asked.starts)
    rows = np.repeat(np.stack([asked.given, asked.relations, asked.heads], 1), counts, axis=0)
    found = sorted((*row, a) for row, a in zip(rows.tolist(), asked.answers.tolist(), strict=True))
    both = [(h, r, 0, t) for h, r, t in triples] + [(t, r, 1, h) for h, r, t in triples]
    assert found == sorted(both)
    assert counts.max() == (answers_per_query or 7)
    many = counts[(asked.given == 0) & (asked.relations == 0) & ~asked.heads]
    assert np.ptp(many) <= 1  # seven answers, in parts of about the same size


def test_rounded_gradients_of_a_sample_are_right_on_average():
    """The same sample with and without rounding; its wrong candidates stand for four."""
    graph = small_graph()
    moved = {
        x: [
            step_of(random_model("complex"), graph, config_of(seed=s, rounding=x, negatives=3))
            for s in range(2000)
        ]
        for x in (0, 0.2)
    }
    for exact, rounded in zip(
        zip(*moved[0], strict=True), zip(*moved[0.2], strict=True), strict=True
    ):
        assert np.abs(rounded[0] - exact[0]).max() > 1e-3
        means = np.mean(exact, axis=0), np.mean(rounded, axis=0)
        np.testing.assert_allclose(*means, atol=0.02 * np.abs(means[0]).max())


def test_a_sample_is_rounded_only_where_that_pays(monkeypatch):
    graph = small_graph()
    steps = {}
    for pays in (0, 1):
        monkeypatch.setattr("bilink.training.tables.ROUNDING_PAYS", pays)
        config = config_of(rounding=0.3, negatives=3)
        steps[pays] = step_of(random_model("complex"), graph, config)
    exact = step_of(random_model("complex"), graph, config_of(negatives=3))
    assert all((a == b).all() for a, b in zip(steps[1], exact, strict=True))
    assert any((a != b).any() for a, b in zip(steps[0], exact, strict=True))


@pytest.mark.parametrize("negatives", [0, 100])
def test_a_grain_that_is_small_changes_little(negatives, atlas):
    options = {"epochs": 6, "batch_size": 200, "queries": "weighted", "init_scale": 1e-2}
    options |= {"loss": "softmax", "negatives": negatives, "threads": 1, "decay": 0.97}
    options |= {"regularization": {"entity": 0.02, "relation": 0.02}}
    runs = [
        bilink.train(atlas, "complex", 20, **options, rounding=rounding) for rounding in (0, 0.004)
    ]
    losses = [run.history[-1]["loss"] for run in runs]
    assert losses[0] != losses[1]
    assert losses[1] == pytest.approx(losses[0], rel=0.02)


def test_distinct_questions_with_one_answer_each_are_those_of_the_facts():
    triples = [(0, 0, 1), (1, 0, 2), (2, 1, 3), (3, 1, 4)]
    graph = small_graph(triples)
    steps = [
        step_of(random_model("complex"), graph, config_of(queries=queries))
        for queries in ("per-fact", "distinct", "weighted")
    ]
    for other in steps[1:]:
        for a, b in zip(steps[0], other, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-7)


@pytest.mark.parametrize("negatives", [0, 3])
def test_dropout_is_the_gradient_of_what_is_left(negatives):
    """The loss of the same epoch at moved parameters uses the same holes."""
    graph, model = small_graph(), random_model("complex")
    config = config_of(
        negatives=negatives, **{"dropout.entity": 0.4, "dropout.relation": 0.3}, seed=5
    )
    engine = SoftmaxEngine(model, graph, config)
    kept = model.entities.copy(), model.relations.copy()
    expected = []
    for array in (model.entities, model.relations):
        gradients = np.zeros(array.shape)
        for index in np.ndindex(array.shape):
            before = array[index]
            losses = []
            for change in (0.01, -0.01):
                array[index] = before + np.float32(change)
                losses.append(engine.run_epoch(0, 0.0).loss)
            array[index] = before
            gradients[index] = (losses[0] - losses[1]) / 0.02
        expected.append(gradients)
    engine.run_epoch(0)
    moved = (kept[0] - model.entities, kept[1] - model.relations)
    for found, gradients in zip(moved, expected, strict=True):
        np.testing.assert_allclose(found, gradients, atol=2e-3)


@pytest.mark.parametrize("rounding", [0, 0.3])
def test_small_blocks_of_scores_change_nothing(rounding, monkeypatch):
    graph, config = small_graph(), config_of(rounding=rounding)
    whole = step_of(random_model("transe"), graph, config)
    monkeypatch.setattr("bilink.training.tables.SCORES", 4 * 5 * 2)  # two rows
    for a, b in zip(step_of(random_model("transe"), graph, config), whole, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("size", [1, 1e-3])  # small gradients are where an epsilon shows
@pytest.mark.parametrize("optimizer", ["adagrad", "row-adagrad", "adam"])
def test_optimizers_follow_their_formulas(optimizer, size):
    graph = small_graph()
    model, config = random_model("distmult"), config_of(optimizer=optimizer, learning_rate=0.1)
    for array in (model.entities, model.relations):
        array *= size
    values = model.entities.astype(float)
    engine = SoftmaxEngine(model, graph, config)
    probe = random_model("distmult")
    first, second = np.zeros_like(values), np.zeros_like(values)
    for epoch in range(3):
        probe.entities[:], probe.relations[:] = model.entities, model.relations
        gradients = step_of(probe, graph, config_of())[0]
        engine.run_epoch(epoch)
        if optimizer == "adagrad":
            first += gradients**2
            values -= 0.1 * gradients / np.sqrt(first + 1e-24)
        elif optimizer == "row-adagrad":
            first += (gradients**2).mean(axis=1, keepdims=True)
            values -= 0.1 * gradients / np.sqrt(first + 1e-24)
        else:  # in the order of operations that Kingma and Ba recommend at the end of section 2
            first = 0.9 * first + 0.1 * gradients
            second = 0.999 * second + 0.001 * gradients**2
            rate = 0.1 * np.sqrt(1 - 0.999 ** (epoch + 1)) / (1 - 0.9 ** (epoch + 1))
            values -= rate * first / (np.sqrt(second) + 1e-8)
        np.testing.assert_allclose(model.entities, values, rtol=2e-3, atol=2e-4)
        values = model.entities.astype(float)


@pytest.mark.parametrize(
    "options", [{}, {"negatives": 3}, {"rounding": 0.01}, {"optimizer": "adam", "plateau": 0.5}]
)
def test_a_resumed_run_is_the_same_run(options, tmp_path, atlas):
    from bilink.runs.job import resume

    told = {"loss": "softmax", "threads": 1, "patience": 0, "validate_every": 1, **options}
    told |= {"decay": 0.97}  # which else follows from the number of epochs
    whole = bilink.train(atlas, "complex", 6, epochs=4, **told)
    bilink.train(atlas, "complex", 6, epochs=2, out=tmp_path / "run", **told)
    again = resume(tmp_path / "run", options={"epochs": 4})
    np.testing.assert_array_equal(again.model.entities, whole.model.entities)
    np.testing.assert_array_equal(again.model.relations, whole.model.relations)


def test_training_may_end_with_all_entities(atlas):
    told = {"loss": "softmax", "threads": 1, "negatives": 20, "seed": 3, "rounding": 0}
    run = bilink.train(atlas, "distmult", 8, epochs=3, full_epochs=1, **told)
    never = bilink.train(atlas, "distmult", 8, epochs=3, **told)
    losses = [[row["loss"] for row in each.history] for each in (run, never)]
    assert losses[0][:2] == losses[1][:2]
    # The first two are over 20 negatives, whose correction keeps their loss near that over all.
    assert losses[0][2] != losses[1][2]


def test_full_epochs_are_those_of_a_run_over_all_entities(atlas, tmp_path):
    from bilink.runs.job import resume

    told = {"loss": "softmax", "threads": 1, "patience": 0, "keep": "last", "decay": 0.97}
    told |= {"rounding": 0}
    mixed = bilink.train(atlas, "complex", 6, epochs=3, negatives=20, full_epochs=1, **told)
    bilink.train(atlas, "complex", 6, epochs=2, negatives=20, out=tmp_path / "run", **told)
    again = resume(tmp_path / "run", options={"epochs": 3, "negatives": 0})
    np.testing.assert_array_equal(mixed.model.entities, again.model.entities)


def test_patience_does_not_cut_off_the_full_epochs(atlas):
    told = {"loss": "softmax", "negatives": 20, "learning_rate": 1e-9, "patience": 1}
    told |= {"validate_every": 1, "epochs": 5}
    assert len(bilink.train(atlas, "distmult", 4, **told).history) < 5
    assert len(bilink.train(atlas, "distmult", 4, full_epochs=1, **told).history) == 5


def test_threads_change_no_more_than_rounding(atlas):
    told = {"loss": "softmax", "epochs": 2, "init_scale": 0.5}
    one = bilink.train(atlas, "hole", 8, threads=1, **told)
    two = bilink.train(atlas, "hole", 8, threads=2, **told)
    assert_nearly_the_same_run(one, two)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "softmax", "margin": 2.0}, "margin is .* does not go with the softmax loss"),
        ({"loss": "softmax", "constraint": "ball"}, "constraint is an option of margin training"),
        ({"loss": "margin", "label_smoothing": 0.1}, "does not go with the margin loss"),
        ({"loss": "margin", "regularization.kind": "n3"}, "kind is an option of softmax training"),
        ({"loss": "margin", "optimizer": "adam"}, "optimizer must be one of adagrad, sgd"),
        ({"loss": "margin", "negatives": 0}, "negatives must be at least 1"),
        ({"loss": "softmax", "negatives": 9, "label_smoothing": 0.1}, "set negatives=0"),
        ({"loss": "softmax", "negatives": 0, "full_epochs": 2}, "all epochs are full"),
        ({"loss": "softmax", "negatives": 9, "full_epochs": 2, "minutes": 1}, "minutes may end"),
        (
            {"loss": "softmax", "negatives": 0, "rounding": 0.1, "label_smoothing": 0.1},
            "not go with lab",
        ),
        (
            {"loss": "softmax", "answers_per_query": 4},
            "set answers_per_query=0",
        ),
        (
            {"loss": "softmax", "negatives": 0, "rounding": 1e-310},
            "rounding must be 0 or at least 1e-06",
        ),
        ({"loss": "margin", "rounding": 0.1}, "rounding is .* does not go with the margin loss"),
        ({"loss": "softmax", "filter_negatives": False}, "filter_negatives is an option of margin"),
        ({"loss": "softmax", "dropout.entity": 1.0}, "dropout.entity must be"),
        ({"loss": "softmax", "batch_size": 0}, "batch_size must be at least 1"),
        ({"loss": "softmax", "regularization.kind": "l4"}, "must be one of l2, n3, dura"),
    ],
)
def test_what_would_be_ignored_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        MarginConfig().with_options(options)


def test_what_is_no_matrix_product_is_refused():
    with pytest.raises(ConfigError, match="Manhattan distance is no matrix product"):
        SoftmaxEngine(random_model("transe-l1"), small_graph(), config_of())
    config = replace(config_of(), relation_prediction=1.0)
    with pytest.raises(ConfigError, match="distance=plain needs a distance"):
        SoftmaxEngine(random_model("complex"), small_graph(), config_of(distance="plain"))
    with pytest.raises(ConfigError, match="linear in the relation"):
        SoftmaxEngine(random_model("transe"), small_graph(), config)


def test_gradients_agree_with_autograd():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    graph, model = small_graph(), random_model("complex", dim=6)
    e, r = (torch.tensor(x, requires_grad=True) for x in (model.entities, model.relations))
    cut = lambda x: torch.complex(*torch.tensor_split(x, 2, dim=1))  # noqa: E731
    h, k, t = torch.tensor(np.array(TRIPLES)).T
    rows = [cut(x) for x in (e[h], r[k], e[t])]
    tails = ((rows[0] * rows[1]) @ cut(e).conj().T).real
    heads = ((rows[2] * rows[1].conj()) @ cut(e).conj().T).real
    entropy = torch.nn.functional.cross_entropy
    ((entropy(tails, t) + entropy(heads, h)) / 2).backward()
    moved = step_of(model, graph, config_of())
    np.testing.assert_allclose(moved[0], e.grad.numpy(), atol=1e-6)
    np.testing.assert_allclose(moved[1], r.grad.numpy(), atol=1e-6)


def assert_nearly_the_same_run(ours, theirs):
    """Adagrad's first step has the length of the step size even where the gradient is rounding.

    So a few numbers may differ much.
    """
    losses = [[row["loss"] for row in run.history] for run in (ours, theirs)]
    np.testing.assert_allclose(*losses, rtol=1e-4)
    assert np.quantile(np.abs(ours.model.entities - theirs.model.entities), 0.99) < 1e-3
