import json
import shutil

import numpy as np
import pytest

import bilink
from bilink.errors import ConfigError, DataError, DataWarning, RunError
from bilink.runs.job import Job, load_source, prepare
from conftest import random_graph

OPTIONS = {"epochs": 6, "threads": 1, "patience": 0, "validate_every": 2}


@pytest.fixture
def folder(graph, tmp_path):
    bilink.train(graph, "hole", 4, out=tmp_path / "run", options=OPTIONS, preset="margin")
    return tmp_path / "run"


def test_a_run_folder_holds_all_that_is_needed_to_use_it_elsewhere(folder, graph, tmp_path):
    moved = tmp_path / "moved"
    shutil.move(folder, moved)
    run = bilink.load(moved)
    assert run.graph.fingerprint == graph.fingerprint
    assert run.graph.entities.names == graph.entities.names
    assert len(run.history) == 6
    assert run.evaluate().metrics()["mrr"] > 0


def test_a_loaded_run_answers_like_the_one_in_memory(graph, tmp_path):
    run = bilink.train(graph, "complex", 4, out=tmp_path / "run", options=OPTIONS)
    again = bilink.load(tmp_path / "run")
    np.testing.assert_array_equal(again.model.entities, run.model.entities)
    ask = {"head": "e1", "relation": "r0"}
    assert run.query(**ask).to_dict() == again.query(**ask).to_dict()
    assert run.score([("e1", "r0", "e2")]).tolist() == again.score([("e1", "r0", "e2")]).tolist()


def test_the_config_repeats_the_run(graph, folder, tmp_path):
    from bilink.runs.config import read_config_file

    config = read_config_file(folder / "config.toml")
    again = bilink.train(graph, config.model, config.dim, options=config.training.to_dict())
    first = bilink.load(folder)
    np.testing.assert_allclose(again.model.entities, first.model.entities, atol=1e-6)


def test_options_that_no_engine_can_follow_leave_no_folder(graph, tmp_path):
    with pytest.raises(ConfigError, match="distance=plain needs a distance"):
        bilink.train(graph, "complex", 4, out=tmp_path / "run", options={"distance": "plain"})
    assert not (tmp_path / "run").exists()


def test_how_a_file_was_read_is_kept(tmp_path):
    lines = "".join(f"e{i % 7}\tr\te{i % 5}\n" for i in range(35))
    (tmp_path / "facts.tsv").write_text("a\tb\tc\n" + lines)
    told = {"header": True, "seed": 3, "fractions": (0.6, 0.2, 0.2)}
    prepare(tmp_path / "facts.tsv", "complex", 2, OPTIONS, **told).run(out=tmp_path / "run")
    run = bilink.load(tmp_path / "run")
    assert "a" not in run.graph.entities.names
    assert load_source(run.config).fingerprint == run.graph.fingerprint


def test_the_last_model_can_be_had_of_a_finished_run(folder):
    best = bilink.load(folder)
    best.evaluate()
    again = bilink.resume(folder, options={"keep": "last", "patience": 0})
    assert bilink.load(folder).config.training.keep == "last"
    assert len(again.history) == len(best.history)
    last = bilink.train(best.graph, "hole", 4, options={**OPTIONS, "keep": "last"}, preset="margin")
    np.testing.assert_array_equal(again.model.entities, last.model.entities)
    assert not np.array_equal(again.model.entities, best.model.entities)


def test_history_has_one_object_per_epoch(folder):
    lines = (folder / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2, 3, 4, 5, 6]


def test_an_existing_folder_is_never_overwritten_without_force(graph, folder):
    before = (folder / "model.safetensors").read_bytes()
    with pytest.raises(RunError, match="--force"):
        bilink.train(graph, "transe", 4, out=folder, options=OPTIONS)
    assert (folder / "model.safetensors").read_bytes() == before
    bilink.train(graph, "transe", 4, out=folder, force=True, options=OPTIONS)
    assert bilink.load(folder).config.model == "transe"


def test_force_does_not_touch_a_folder_with_other_files(graph, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match=r"thesis\.tex"):
        bilink.train(graph, "transe", 4, out=tmp_path, force=True, options=OPTIONS)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_an_unfinished_run_says_how_to_go_on(graph, tmp_path):
    path = tmp_path / "run"
    bilink.train(graph, "hole", 4, out=path, options=OPTIONS, should_stop=lambda: True)
    with pytest.raises(RunError, match="bilink resume"):
        bilink.load(path)
    bilink.resume(path)
    whole = bilink.train(graph, "hole", 4, out=tmp_path / "whole", options=OPTIONS)
    assert (path / "model.safetensors").read_bytes() == (
        whole.path / "model.safetensors"
    ).read_bytes()
    assert [r["epoch"] for r in bilink.load(path).history] == [1, 2, 3, 4, 5, 6]


def test_a_finished_run_can_be_made_longer(folder):
    assert bilink.resume(folder).progress.epoch == 6
    longer = bilink.resume(folder, options={"epochs": 9})
    assert longer.progress.epoch == 9
    assert bilink.load(folder).config.training.epochs == 9
    assert len(bilink.load(folder).history) == 9


def test_a_longer_run_that_was_stopped_is_not_finished(folder):
    """Its model stays, but is not passed off as the one of all epochs."""
    before = bilink.load(folder)
    bilink.resume(folder, options={"epochs": 9}, should_stop=lambda: True)
    with pytest.warns(DataWarning, match="its model is the one from before; go on with"):
        stopped = bilink.load(folder)
    assert stopped.stopped == "interrupted"
    np.testing.assert_array_equal(stopped.model.entities, before.model.entities)
    whole = Job(before.graph, stopped.config).run_or_read(folder)
    assert (whole.progress.epoch, len(bilink.load(folder).history)) == (9, 9)
    assert not np.array_equal(whole.model.entities, before.model.entities)


@pytest.mark.parametrize("config", ["version = 2\n", "half of it"])
def test_a_run_that_cannot_be_read_is_not_replaced_unasked(config, folder, graph):
    job = Job(graph, bilink.load(folder).config)
    (folder / "config.toml").write_text(config)
    model = (folder / "model.safetensors").read_bytes()
    with pytest.raises(RunError, match=r"Upgrade bilink|cannot be read"):
        job.run_or_read(folder)
    assert (folder / "model.safetensors").read_bytes() == model


def test_what_is_refused_costs_no_former_run(folder, graph, tmp_path):
    l1 = bilink.train(graph, "transe-l1", 4, options=OPTIONS)
    both = tmp_path / "both"
    runs = [bilink.load(folder), bilink.train(graph, "complex", 4, options=OPTIONS)]
    bilink.combine(runs, out=both)
    with pytest.raises(ConfigError, match="platt takes bilinear models only"):
        bilink.combine([runs[0], l1], method="platt", out=both, force=True)
    assert len(bilink.load(both).members) == 2
    bilink.combine(runs[:1], out=both, force=True)
    assert len(bilink.load(both).members) == 1
    assert not (both / "member-1.safetensors").exists()


def test_two_processes_do_not_train_in_one_folder(folder):
    from bilink.runs.folder import RunFolder

    with RunFolder(folder).locked(), pytest.raises(RunError, match="another process"):
        bilink.resume(folder)


def test_force_does_not_touch_a_run_that_is_training(graph, folder):
    from bilink.runs.folder import RunFolder

    before = sorted(path.name for path in folder.iterdir())
    with RunFolder(folder).locked(), pytest.raises(RunError, match="another process"):
        bilink.train(graph, "transe", 4, out=folder, force=True, options=OPTIONS)
    assert sorted(path.name for path in folder.iterdir()) == sorted({*before, ".lock"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": "sgd"}, "optimizer cannot change"),
        ({"seed": 1}, "seed cannot change"),
        ({"epochs": 3}, "6 are done already"),
        ({"epoch": 9}, "did you mean 'epochs'"),
    ],
)
def test_resume_refuses_what_does_not_fit_and_changes_nothing(folder, options, message):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ConfigError, match=message):
        bilink.resume(folder, options=options)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert bilink.resume(folder).progress.epoch == 6


def test_metrics_are_kept_by_protocol_and_go_when_training_goes_on(folder):
    from bilink.runs.folder import RunFolder

    run = bilink.load(folder)
    for protocol in ({}, {"filter": ()}, {"ties": "worst"}):
        RunFolder(folder).write_metrics(run.evaluate(**protocol).to_dict(), run.digest)
    kept = json.loads((folder / "metrics.json").read_text())
    assert len(kept) == 3
    assert "test, raw, ties realistic" in kept
    assert {result["model"] for result in kept.values()} == {run.digest}
    longer = bilink.resume(folder, options={"epochs": 7})
    assert longer.digest != run.digest
    with pytest.warns(DataWarning, match="results of another model"):
        RunFolder(folder).write_metrics(longer.evaluate().to_dict(), longer.digest)
    (kept,) = json.loads((folder / "metrics.json").read_text()).values()
    assert kept["model"] == longer.digest


def test_given_negatives_stay_with_the_run(graph, tmp_path):
    from dataclasses import replace

    from bilink.runs.folder import RunFolder

    given = replace(graph, negatives={"test": graph.test[:, [2, 1, 0]]})
    bilink.train(given, "hole", 4, out=tmp_path / "run", options=OPTIONS)
    run = bilink.load(tmp_path / "run")
    np.testing.assert_array_equal(run.graph.negatives["test"], given.negatives["test"])
    found = run.classify().to_dict()
    assert (found["negatives"], found["thresholds"]["negatives"]) == (
        "given",
        "sampled by position",
    )
    for result in (found, run.classify("valid").to_dict(), run.evaluate().to_dict()):
        RunFolder(run.path).write_metrics(result, run.digest)
    assert len(json.loads((run.path / "metrics.json").read_text())) == 3


def test_the_parts_of_a_run_must_belong_together(graph, folder, tmp_path):
    names = json.loads((folder / "vocabulary.json").read_text())
    names["entities"].reverse()
    (folder / "vocabulary.json").write_text(json.dumps(names))
    with pytest.raises(RunError, match="belongs to another graph"):
        bilink.load(folder)
    other = bilink.train(graph, "distmult", 4, out=tmp_path / "other", options=OPTIONS)
    third = bilink.train(graph, "transe", 4, out=tmp_path / "third", options=OPTIONS)
    shutil.copy(other.path / "model.safetensors", third.path)
    with pytest.raises(RunError, match="the model is not the one"):
        bilink.load(third.path)


def test_options_that_make_a_run_diverge_do_not_stay(folder):
    from bilink.errors import TrainingError

    before = (folder / "config.toml").read_text()
    with pytest.raises(TrainingError):
        bilink.resume(folder, options={"learning_rate": 1e38, "constraint": "none", "epochs": 9})
    assert (folder / "config.toml").read_text() == before


def test_a_finished_run_without_its_checkpoint_is_not_started_again(folder):
    (folder / "checkpoint.safetensors").unlink()
    with pytest.raises(RunError, match="its checkpoint is gone"):
        bilink.resume(folder, options={"epochs": 9})


@pytest.mark.parametrize("text", ["[]", "null", "3", "{"])
def test_garbled_metrics_and_history_do_not_hinder(folder, text):
    from bilink.runs.folder import RunFolder

    (folder / "metrics.json").write_text(text)
    (folder / "history.jsonl").write_text(text + "\n")
    run = bilink.load(folder)
    with pytest.warns(DataWarning, match="is not used"):
        RunFolder(folder).write_metrics(run.evaluate().to_dict(), run.digest)
    assert len(json.loads((folder / "metrics.json").read_text())) == 1


def test_printed_answers_cannot_steer_the_terminal():
    names = ["plain", "\x1b[31mred", "\u202eturned", "two\nlines"]
    triples = [(a, "r", b) for a in names for b in names if a != b]
    graph = bilink.graph_from_triples(triples, fractions=(1, 0, 0))
    text = repr(bilink.train(graph, "transe", 2, epochs=1).query(head="plain", relation="r"))
    assert not {"\x1b", "\u202e"} & set(text)
    assert len(text.splitlines()) == 4


def test_leftovers_of_a_crash_are_swept(folder):
    (folder / ".checkpoint.safetensors.123.tmp").write_bytes(b"half")
    bilink.resume(folder, options={"epochs": 7})
    assert not list(folder.glob(".*.tmp"))


def test_a_config_is_held_to_its_graph(folder):
    from dataclasses import replace

    from bilink.runs.config import read_config_file
    from bilink.runs.job import load_source

    config = replace(read_config_file(folder / "config.toml"), data={"source": "atlas"})
    with pytest.raises(DataError, match="not the one of the config"):
        load_source(config)


@pytest.mark.parametrize("name", ["model.safetensors", "graph.safetensors", "vocabulary.json"])
@pytest.mark.parametrize("damage", ["truncate", "foreign", "remove"])
def test_a_damaged_folder_is_refused_with_the_files_name(folder, name, damage):
    path = folder / name
    if damage == "truncate":
        path.write_bytes(path.read_bytes()[:30])
    elif damage == "foreign":
        path.write_bytes(b"PK\x03\x04 this is a zip file, or says so")
    else:
        path.unlink()
    with pytest.raises(RunError):
        bilink.load(folder)


@pytest.mark.parametrize(
    "text",
    ["", "version = 1", "version = 99", "not toml [", 'version = 1\ndata = "x"', "version = []"],
)
def test_a_damaged_config_is_refused_with_its_name(folder, text):
    (folder / "config.toml").write_text(text)
    with pytest.raises(RunError, match=r"config\.toml"):
        bilink.load(folder)


def test_a_history_that_was_cut_short_does_not_hinder(folder):
    with open(folder / "history.jsonl", "a") as file:
        file.write('{"epoch": 7, "sec')
    assert len(bilink.load(folder).history) == 6
    assert bilink.resume(folder, options={"epochs": 8}).progress.epoch == 8
    assert [r["epoch"] for r in bilink.load(folder).history] == list(range(1, 9))


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(RunError, match="no run at"):
        bilink.load(tmp_path / "nowhere")
    with pytest.raises(RunError, match="no run folder"):
        bilink.load(tmp_path)


def test_queries_mark_known_facts_and_can_leave_them_out(folder):
    run = bilink.load(folder)
    h, r, _ = run.graph.train[0]
    ask = {"head": run.graph.entities.names[h], "relation": run.graph.relations.names[r], "k": 99}
    known = {a.tail for a in run.query(**ask) if a.known}
    all_triples = run.graph.triples
    facts = all_triples[(all_triples[:, 0] == h) & (all_triples[:, 1] == r), 2]
    assert known == {run.graph.entities.names[t] for t in facts}
    new = run.query(**ask, new=True)
    assert not known & {a.tail for a in new}
    assert [a.rank for a in new] == list(range(1, len(new) + 1))
    scores = [a.score for a in new]
    assert scores == sorted(scores, reverse=True)


def test_queries_about_heads_and_tails_agree_with_scores(folder):
    run = bilink.load(folder)
    for answer in [*run.query(tail="e3", relation="r1"), *run.query(head="e3", relation="r1")]:
        triple = (answer.head, answer.relation, answer.tail)
        assert run.score([triple])[0] == pytest.approx(answer.score, abs=1e-5)


def test_questions_that_cannot_be_asked_get_a_sentence(folder):
    run = bilink.load(folder)
    with pytest.raises(ConfigError, match="either a head or a tail"):
        run.query(head="e1")
    with pytest.raises(ConfigError, match="k must be"):
        run.query(head="e1", relation="r1", k=0)
    with pytest.raises(DataError, match="unknown entity 'e99'; did you mean"):
        run.query(head="e99", relation="r1")


def test_validation_never_looks_at_test():
    """Known test answers stay others in validation: else the test split would help to choose."""
    from bilink.models.model import Model
    from bilink.runs.job import validation

    base = random_graph()
    valid = np.array([[0, 0, 1]])
    better = np.array([[0, 0, t] for t in range(2, 12)] + [[h, 0, 1] for h in range(2, 12)])
    graph = bilink.Graph("g", base.entities, base.relations, [[5, 1, 6]], valid, better)
    run = bilink.train(graph, "distmult", 2, options={**OPTIONS, "epochs": 1})
    model = Model.empty("distmult", 2, 12, 3)
    model.relations[:] = 1
    model.entities[:] = 2
    model.entities[:2] = 1  # every entity of a test triple outscores the answer
    ranking = bilink.rank_entities(model.scorer, graph, "valid", filter=("train", "valid"))
    assert ranking.metrics()["mrr"] < 0.2
    assert validation(graph, run.config.training)(model) == pytest.approx(ranking.metrics()["mrr"])


def test_a_graph_without_validation_triples_trains_to_the_end(tmp_path):
    graph = random_graph()
    object.__setattr__(graph, "valid", graph.valid[:0])
    run = bilink.train(graph, "transe", 3, out=tmp_path / "run", options=OPTIONS)
    assert run.progress.epoch == 6
    assert bilink.load(tmp_path / "run").model.dim == 3


@pytest.mark.parametrize("model", ["transe", "transh", "transr", "transg", "transr-reciprocal"])
def test_training_starts_from_another_run(model, graph, tmp_path):
    """With steps of almost no size, the scores are still those of the run that it started from."""
    first = bilink.train(graph, "transe", 6, epochs=3, threads=1, out=tmp_path / "first")
    still = {"epochs": 1, "learning_rate": 1e-12, "constraint": "none", "threads": 1}
    still["start"] = str(tmp_path / "first")
    run = bilink.train(graph, model, 6, options=still, loss="margin", init_scale=1e-9)
    np.testing.assert_allclose(run.model.entities, first.model.entities, atol=1e-6)
    found, wanted = run.model.score(graph.test), first.model.score(graph.test)
    if model == "transh":  # all but what lies along the normal
        assert (found >= wanted - 1e-5).all()
    else:
        np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_a_start_that_does_not_fit_is_refused_before_anything_is_written(graph, tmp_path):
    bilink.train(graph, "transe", 6, epochs=1, threads=1, out=tmp_path / "first")
    start = {"start": str(tmp_path / "first"), "loss": "margin"}
    for model, dim, wanted in (
        ("complex", 6, "from complex of"),
        ("transr", 5, "or transe of the"),
    ):
        with pytest.raises(ConfigError, match=wanted):
            bilink.train(graph, model, dim, options=start, out=tmp_path / "second")
    other = random_graph(seed=5)
    with pytest.raises(ConfigError, match="another graph"):
        bilink.train(other, "transr", 6, options=start, out=tmp_path / "second")
    assert not (tmp_path / "second").exists()
