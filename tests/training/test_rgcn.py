"""R-GCN: what its layers compute, how it learns, and what it leaves behind."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import bilink
import naive
from bilink.errors import ConfigError
from bilink.models.model import Model
from bilink.models.storage import load_tensors
from bilink.runs.audit import cross_fit
from bilink.runs.folder import RunFolder
from bilink.runs.job import prepare
from bilink.training import loop, rgcn
from bilink.training.config import RgcnConfig
from bilink.training.engine import FORMAT, VERSION
from bilink.training.loop import fit, initialise, make_engine
from conftest import random_graph

torch = pytest.importorskip("torch", reason="torch is missing: pip install 'bilink[torch]'")
from bilink.training import convolution  # noqa: E402  (which needs torch)

GRAPH = random_graph(n_entities=14, n_relations=3, size=90)
COMMON = {"epochs": 4, "threads": 1, "patience": 0, "keep": "last"}
CONFIGS = {
    "basis": RgcnConfig(**COMMON),
    "two layers": RgcnConfig(**COMMON, layers=2, bases=3, normalization="relation"),
    "blocks": RgcnConfig(**COMMON, decomposition="block", blocks=2),
    "deep blocks": RgcnConfig(
        **COMMON, decomposition="block", blocks=3, layers=2, normalization="relation"
    ),
    "batches": RgcnConfig(**COMMON, batch_size=20, negatives=3),
}
DIM = 6


@pytest.fixture(params=CONFIGS)
def config(request):
    return CONFIGS[request.param]


def empty(graph=GRAPH, dim=DIM):
    return Model.empty("distmult", dim, len(graph.entities), len(graph.relations))


def train(config, **how):
    model = empty()
    return fit(model, GRAPH, config, **how).model


def arrays_of(state):
    """The input and the layers of an encoder, from the arrays of a checkpoint."""
    layers = []
    while f"layer_{len(layers)}_self" in state:
        prefix = f"layer_{len(layers)}_"
        names = {"self", "bases", "coefficients", "blocks"}
        layers.append({n: state[prefix + n] for n in names if prefix + n in state})
    return state.get("input", np.eye(len(GRAPH.entities))), layers


def matrices_of(layer):
    """The matrix of each relation, and of each inverse one."""
    if "bases" in layer:
        return np.einsum("rb,bio->rio", layer["coefficients"], layer["bases"])
    count, blocks, size, _ = layer["blocks"].shape
    found = np.zeros((count, blocks * size, blocks * size))
    for b in range(blocks):
        part = slice(b * size, (b + 1) * size)
        found[:, part, part] = layer["blocks"][:, b]
    return found


def reference(config, state):
    """The rows of all entities by the slow formula."""
    rows, layers = arrays_of(state)
    by_relation = config.normalization == "relation"
    for i, layer in enumerate(layers):
        itself = layer["self"].astype(float)
        rows = naive.convolution(GRAPH.train, rows, matrices_of(layer), itself, by_relation)
        rows = np.maximum(rows, 0) if i + 1 < len(layers) else rows
    return rows


def test_entities_are_what_the_formula_makes_of_the_parameters(config, tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    model = train(config, checkpoint=path)
    state, _ = load_tensors(path, FORMAT, VERSION)
    np.testing.assert_allclose(model.entities, reference(config, state), rtol=1e-4, atol=1e-5)
    for name in ("coefficients", "blocks"):  # what relations have of their own was trained
        if f"layer_0_{name}_state" in state:
            assert np.abs(state[f"layer_0_{name}_state"]).max() > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["two layers", "deep blocks"])
def test_layers_agree_with_pytorch_geometric(name):
    """Another implementation, on the same parameters; it knows means over a relation only."""
    nn = pytest.importorskip(
        "torch_geometric.nn", reason="PyTorch Geometric is missing: pip install --group peers"
    )
    config = CONFIGS[name]
    engine = made_engine(config)
    engine.run_epoch(0)
    given, layers = arrays_of(engine.state)
    h, r, t = torch.from_numpy(GRAPH.train.astype(np.int64)).T
    edges = torch.stack([torch.cat([h, t]), torch.cat([t, h])])
    kinds, k = torch.cat([r, r + len(GRAPH.relations)]), len(GRAPH.relations)
    rows = torch.from_numpy(given.astype(np.float32))
    for i, layer in enumerate(layers):
        tensors = {key: torch.from_numpy(array.copy()) for key, array in layer.items()}
        how = {"num_bases": config.bases} if "bases" in layer else {"num_blocks": config.blocks}
        theirs = nn.RGCNConv(*tensors["self"].shape, 2 * k, **how, aggr="mean", bias=False)
        with torch.no_grad():
            theirs.root.copy_(tensors["self"])
            theirs.weight.copy_(tensors.get("bases", tensors.get("blocks")))
            if "coefficients" in tensors:
                theirs.comp.copy_(tensors["coefficients"])
            rows = theirs(rows, edges, kinds)
        rows = torch.relu(rows) if i + 1 < len(layers) else rows
    np.testing.assert_allclose(engine.model.entities, rows.numpy(), rtol=1e-5, atol=1e-5)


def made_engine(config, model=None):
    model = model or empty()
    initialise(model, config)
    return make_engine(model, GRAPH, config)


def doubles(config, seed=0):
    """An encoder, relations and a sample of facts, in double precision."""
    random = np.random.default_rng(seed)
    n, k = len(GRAPH.entities), len(GRAPH.relations)
    layers, given = rgcn.initial(replace(config, init_scale=0.5), n, k, DIM)
    leaf = lambda x: torch.from_numpy(random.normal(size=x.shape)).requires_grad_()  # noqa: E731
    layers = [{name: leaf(array) for name, array in own.items()} for own in layers]
    given = None if given is None else leaf(given)
    sample = convolution.Sample.of(
        GRAPH.train[:9].astype(np.int64), random.integers(n, size=(9, 2)), random.random(9) < 0.5
    )
    return layers, given, leaf(np.empty((k, DIM))), sample


def test_the_gradients_are_those_of_the_loss(config):
    """Finite differences through the layers, their dropout and the decoder."""
    layers, given, relations, sample = doubles(config)
    edges = rgcn.Edges(GRAPH, config).kept(np.random.default_rng(1))
    assert len(edges.source) < 2 * len(GRAPH.train)
    edges = replace(edges, weight=edges.weight.double())
    masks = rgcn._masks(np.random.default_rng(2), 0.2, (len(GRAPH.entities), DIM), len(layers))
    masks = [torch.from_numpy(mask).double() for mask in masks]
    assert {round(x, 2) for x in masks[0].unique().tolist()} == {0, 1.25}
    names = [(i, name) for i, own in enumerate(layers) for name in own]

    def loss(relations, given, *params):
        own = [dict[str, torch.Tensor]() for _ in layers]
        for (i, name), tensor in zip(names, params, strict=True):
            own[i][name] = tensor
        rows = convolution.encode(edges, given, own, masks)
        return convolution.decoder_loss(rows, relations, sample, (0.1, 0.2))[0]

    params = [layers[i][name] for i, name in names]
    assert torch.autograd.gradcheck(loss, (relations, given, *params))


def test_parts_of_the_decoder_add_up():
    config = CONFIGS["two layers"]
    found = []
    for part in (2, 100):
        layers, given = rgcn.initial(config, len(GRAPH.entities), len(GRAPH.relations), DIM)
        layers[0]["self"][:] = np.random.default_rng(3).normal(size=layers[0]["self"].shape)
        encoder, edges = convolution.Encoder(layers, given), rgcn.Edges(GRAPH, config)
        relations = np.random.default_rng(0).normal(size=(3, DIM)).astype(np.float32)
        sample = doubles(config)[-1]
        how = (relations, sample, (0.1, 0.2))
        found.append(encoder.gradients(edges.all, None, *how, part))
    (one, beaten, gradients), (other, same, whole) = found
    assert one == pytest.approx(other)
    assert beaten == same
    for a, b in zip(gradients, whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_an_edge_and_its_inverse_are_dropped_together():
    kept = rgcn.Edges(GRAPH, CONFIGS["basis"]).kept(np.random.default_rng(0))
    k = len(GRAPH.relations)
    ends = torch.repeat_interleave(torch.arange(len(kept.start) - 1), kept.start.diff())
    edges = set(zip(kept.source.tolist(), kept.relation.tolist(), ends.tolist(), strict=True))
    assert 0 < len(edges) < 2 * len(GRAPH.train)
    assert edges == {(t, (r + k) % (2 * k), h) for h, r, t in edges}


def test_one_thread_repeats_a_run_to_the_last_bit_also_in_pieces(config, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "PULSE", 0)
    config, path = replace(config, checkpoint_seconds=0), tmp_path / "checkpoint.safetensors"
    whole, again = train(config), train(config)
    for _ in range(100):
        asked = iter(range(10**6))
        result = fit(
            empty(), GRAPH, config, checkpoint=path, should_stop=lambda a=asked: next(a) > 0
        )
        if result.stopped != loop.INTERRUPTED:
            break
    for other in (again, result.model):
        np.testing.assert_array_equal(other.entities, whole.entities)
        np.testing.assert_array_equal(other.relations, whole.relations)
    assert not np.array_equal(train(replace(config, seed=1)).entities, whole.entities)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run on the atlas."""
    path = tmp_path_factory.mktemp("rgcn") / "run"
    options = {"epochs": 60, "threads": 1, "learning_rate": 0.05, "validate_every": 20}
    return bilink.train("atlas", "rgcn", 20, options=options, out=path)


def test_it_learns(trained):
    """Far above the start, which is at chance, and the chance level of 0.01."""
    job = prepare("atlas", "rgcn", 20)
    start = empty(job.graph, 20)
    initialise(start, job.config.training)
    first = bilink.rank_entities(start.scorer, job.graph, "test").metrics()["mrr"]
    found = trained.evaluate().metrics()["mrr"]
    assert first < 0.05
    assert found > 0.25
    losses = [record["loss"] for record in trained.history]
    assert len(losses) == 60
    assert losses[-1] < 0.5 * losses[0]


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import bilink
from bilink.cli import main
run = bilink.load(sys.argv[1])
print(run.config.training.loss, run.model.family.name)
print(run.evaluate().metrics()["mrr"])
print(run.classify().metrics()["accuracy"] > 0.5)
print(run.query(head="Austria", relation="borders", k=3)[0].tail)
sys.argv = ["bilink", "train", "atlas", "--model", "rgcn", "--out", sys.argv[1] + "-more"]
main()
"""


def test_without_torch_a_run_works_and_only_training_is_refused(trained):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(trained.path)], capture_output=True, text=True
    )
    kind, mrr, classifies, answer = done.stdout.splitlines()
    assert (kind, classifies) == ("rgcn distmult", "True")
    assert float(mrr) == pytest.approx(trained.evaluate().metrics()["mrr"])
    assert answer == trained.query(head="Austria", relation="borders", k=3)[0].tail
    assert done.returncode == 1
    assert "training R-GCN needs torch; install it with: pip install 'bilink[torch]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not RunFolder(str(trained.path) + "-more").path.exists()


def test_a_run_is_resumed_audited_combined_and_updated_like_a_distmult(tmp_path):
    options = {"epochs": 3, "threads": 1, "patience": 0}
    bilink.train(GRAPH, "rgcn", DIM, options=options, out=tmp_path / "run")
    longer = bilink.resume(tmp_path / "run", options={"epochs": 5})
    assert len(longer.history) == 5
    assert longer.model.family.name == "distmult"
    with pytest.raises(ConfigError, match="layers cannot change in the middle"):
        bilink.resume(tmp_path / "run", options={"layers": 2})
    folds = cross_fit(longer, 2, options={"epochs": 2})  # as an audit trains it again
    assert {run.config.training.loss for run in folds.runs} == {"rgcn"}
    other = bilink.train(GRAPH, "distmult", 4, epochs=3, threads=1)
    both = bilink.combine([longer, other], out=tmp_path / "both")
    assert both.evaluate().metrics() == bilink.load(tmp_path / "both").evaluate().metrics()
    new = [("new", "r0", "e1"), ("e2", "r1", "new")]
    assert len(longer.update(new).run.graph.entities) == len(GRAPH.entities) + 1
    with pytest.raises(ConfigError, match="not the convolution that made them"):
        longer.update(new, epochs=2)


def test_what_cannot_be_is_refused_before_anything_is_done(tmp_path, monkeypatch):
    def refused(message, model="rgcn", dim=10, **options):
        with pytest.raises(ConfigError, match=message):
            bilink.train(GRAPH, model, dim, out=tmp_path / "run", **options)
        assert not (tmp_path / "run").exists()

    refused("dim 10 cannot be cut into 3 blocks", decomposition="block", blocks=3)
    refused("a distmult, not of a complex", model="complex", loss="rgcn")
    refused("leave out the preset", preset="softmax")
    refused("leave out the preset and the loss", loss="softmax")
    refused("margin is an option of margin training and does not go with the R-GCN", margin=2.0)
    monkeypatch.setattr(rgcn, "available_memory", lambda: 1e6)
    refused(r"takes about 0\.\d GB, and 0\.0 GB are free")


def test_the_name_and_the_options_lead_to_the_same_config():
    named = prepare(GRAPH, "rgcn", 10, {"bases": 3}).config
    assert named == prepare(GRAPH, "distmult", 10, {"bases": 3}).config
    assert named == prepare(GRAPH, "distmult", 10, {"bases": 3}, preset="rgcn").config
    assert (named.model, named.training.loss, named.training.bases) == ("distmult", "rgcn", 3)
    plan = prepare(GRAPH, "rgcn", 10).plan()
    assert plan.title == "R-GCN"
    assert plan.seconds > 0


def test_the_command_line_says_what_it_makes(tmp_path):
    command = [sys.executable, "-m", "bilink", "train", "atlas", "--model", "rgcn", "--dim", "4"]
    command += ["--set", "epochs=2", "--set", "threads=1", "--out", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "R-GCN of dim 4" in done.stderr
    lines = (tmp_path / "run" / "history.jsonl").read_text().splitlines()
    assert {"epoch", "seconds", "triples_per_second", "loss", "violated"} <= set(
        json.loads(lines[-1])
    )
