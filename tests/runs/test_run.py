import json
import shutil

import numpy as np
import pytest

import bilink
from bilink.errors import ConfigError, DataError, RunError
from conftest import random_graph

OPTIONS = {"epochs": 6, "threads": 1, "patience": 0, "validate_every": 2}


@pytest.fixture
def folder(graph, tmp_path):
    bilink.train(graph, "hole", 4, out=tmp_path / "run", options=OPTIONS)
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
    from bilink.runs.folder import read_config_file

    config = read_config_file(folder / "config.toml")
    again = bilink.train(graph, config.model, config.dim, options=config.training.to_dict())
    first = bilink.load(folder)
    np.testing.assert_allclose(again.model.entities, first.model.entities, atol=1e-6)


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


def test_two_processes_do_not_train_in_one_folder(folder):
    from bilink.runs.folder import RunFolder

    with RunFolder(folder).locked(), pytest.raises(RunError, match="another process"):
        bilink.resume(folder)


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
    """The same validation results whatever the test split holds."""
    graph, other = random_graph(), random_graph()
    object.__setattr__(other, "test", other.test[::-1][:1])
    options = {**OPTIONS, "validation_triples": 5}
    histories = [
        [r.get("validation_mrr") for r in bilink.train(g, "complex", 3, options=options).history]
        for g in (graph, other)
    ]
    assert histories[0] == histories[1]


def test_a_graph_without_validation_triples_trains_to_the_end(tmp_path):
    graph = random_graph()
    object.__setattr__(graph, "valid", graph.valid[:0])
    run = bilink.train(graph, "transe", 3, out=tmp_path / "run", options=OPTIONS)
    assert run.progress.epoch == 6
    assert bilink.load(tmp_path / "run").model.dim == 3
