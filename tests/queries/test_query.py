"""Questions, what they leave out, and their answers as tables."""

import builtins
import json
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import polars
import pytest

import bilink
from bilink.data.files import read_triples
from bilink.data.graph import Graph
from bilink.data.vocabulary import Vocabulary
from bilink.errors import ConfigError, DataError, DataWarning
from bilink.queries.answers import Answers, Question, read_names, read_questions
from bilink.queries.tables import check_ending
from conftest import random_graph


@pytest.fixture(scope="module")
def run():
    return bilink.train(random_graph(), "complex", 4, epochs=3, threads=1)


def scores_of(run, relation):
    """All pairs of a relation with their scores, as the run itself scores them."""
    names = run.graph.entities.names
    facts = [(h, relation, t) for h in names for t in names]
    return dict(zip(facts, run.score(facts).tolist(), strict=True))


def known(run):
    e, r = run.graph.entities.names, run.graph.relations.names
    return {(e[h], r[k], e[t]) for h, k, t in run.graph.triples.tolist()}


def as_facts(answers):
    return [(a.head, a.relation, a.tail) for a in answers]


def test_relations_of_two_entities_are_ranked_by_probability_if_there_is_one(run):
    answers = run.query(head="e1", tail="e2")
    assert [a.rank for a in answers] == [1, 2, 3]
    assert {a.label for a in answers} == {"r0", "r1", "r2"}
    values = [a.score if a.probability is None else a.probability for a in answers]
    assert values == sorted(values, reverse=True)
    assert [a.known for a in answers] == [fact in known(run) for fact in as_facts(answers)]
    assert answers.question == "(e1, ?, e2)"
    assert not {a.known for a in run.query(head="e1", tail="e2", new=True)} & {True}


@pytest.mark.parametrize("new", [False, True])
def test_pairs_of_a_relation_are_its_best(run, new):
    scores = scores_of(run, "r1")
    loops = 1 in run.graph.reflexive_relations
    allowed = [
        fact
        for fact in scores
        if (loops or fact[0] != fact[2]) and not (new and fact in known(run))
    ]
    best = sorted(allowed, key=lambda fact: -scores[fact])[:9]
    answers = run.query(relation="r1", k=9, new=new, any_entity=True)
    assert as_facts(answers) == best
    assert [a.known for a in answers] == [fact in known(run) for fact in best]
    assert answers[0].label == f"{answers[0].head} → {answers[0].tail}"


def test_new_facts_are_the_best_of_all_relations(run):
    scores = scores_of(run, "r0") | scores_of(run, "r1") | scores_of(run, "r2")
    loops = {f"r{r}" for r in run.graph.reflexive_relations}
    allowed = [f for f in scores if f not in known(run) and (f[0] != f[2] or f[1] in loops)]
    best = sorted(allowed, key=lambda fact: -scores[fact])[:12]
    assert run.judge is None  # there are too few validation facts
    assert as_facts(run.new_facts(12, any_entity=True)) == best
    assert run.new_facts(12).missing is None


def test_with_probabilities_new_facts_are_the_most_probable_and_spread():
    run = bilink.train(random_graph(n_entities=30, size=400), "complex", 4, epochs=3, threads=1)
    answers = run.new_facts(24)
    assert not any(answer.known for answer in answers)
    chances = [answer.probability for answer in answers]
    assert (np.diff(chances) < 1e-9).all()
    assert max(Counter(answer.relation for answer in answers).values()) <= 8
    assert answers.missing == 0.1
    assert "if 10% of all facts are missing" in repr(answers)
    assert run.probability(as_facts(answers)) == pytest.approx(chances)
    pairs = run.query(relation="r1", new=True, k=5)
    assert {a.relation for a in pairs} == {"r1"}
    assert pairs[0].probability >= max(a.probability for a in answers if a.relation == "r1")


def test_answers_can_be_limited_to_seen_entities_or_a_list(run):
    train, names = run.graph.train, run.graph.entities.names
    seen = {names[t] for t in train[train[:, 1] == 0, 2]}
    answers = run.query(head="e3", relation="r0", only="seen", k=99)
    assert {a.tail for a in answers} == seen - ({"e3"} - seen)
    some = run.query(relation="r0", only=["e1", "e2", "e5"], k=99)
    assert {a.head for a in some} | {a.tail for a in some} == {"e1", "e2", "e5"}
    assert [a.head for a in run.query(tail="e1", relation="r0", only=["e7"])] == ["e7"]
    for wrong, message in (("sean", "'seen' or a list"), (["e99"], "unknown entity")):
        with pytest.raises((ConfigError, DataError), match=message):
            run.query(head="e1", relation="r0", only=wrong)
    with pytest.raises(ConfigError, match="asks for a relation"):
        run.query(head="e1", tail="e2", only="seen")


def test_tables(run, monkeypatch):
    answers = run.query(relation="r0", k=4)
    frame = answers.to_polars()
    assert frame.columns == [
        "head",
        "relation",
        "tail",
        "label",
        "score",
        "probability",
        "rank",
        "known",
    ]
    assert frame.schema["probability"] == polars.Float64
    assert frame["head"].to_list() == [a.head for a in answers]
    assert run.query(head="e1", relation="r0", only=[], k=3).to_polars().shape == (0, 8)
    real = builtins.__import__

    def without_pandas(name, *rest):
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name="pandas")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_pandas)
    with pytest.raises(ConfigError, match="needs pandas"):
        answers.to_pandas()


def named_run(*names):
    """A run whose first entities have these names."""
    graph = random_graph()
    names = (*names, *graph.entities.names[len(names) :])
    graph = replace(graph, entities=Vocabulary("entity", names))
    return bilink.train(graph, "distmult", 2, epochs=1)


def test_answers_are_written_in_the_format_that_the_name_ends_in(run, tmp_path):
    for answers in (
        run.query(relation="r0", k=4),
        run.query_all([Question("e1", "r0", None), Question("e1", None, "e2")], k=4),
    ):
        expected = answers.to_polars()
        answers.write(tmp_path / "a.csv")
        assert polars.read_csv(tmp_path / "a.csv", schema=expected.schema).equals(expected)
        answers.write(tmp_path / "a.tsv")
        with open(tmp_path / "a.tsv") as file:
            rows = [line.rstrip("\n").split("\t") for line in file]
        assert rows[0] == expected.columns
        assert [row[-2] for row in rows[1:]] == list(map(str, expected["rank"]))
        answers.write(tmp_path / "a.PARQUET")
        assert polars.read_parquet(tmp_path / "a.PARQUET").equals(expected)
        answers.write(str(tmp_path / "a.json"))
        assert json.loads((tmp_path / "a.json").read_text()) == answers.to_dict()
        assert {path.name for path in tmp_path.iterdir()} == {
            "a.csv",
            "a.tsv",
            "a.PARQUET",
            "a.json",
        }


@pytest.mark.parametrize("ending", [".nt", ".ttl"])
def test_answers_in_rdf_are_read_as_the_same_triples(run, tmp_path, ending):
    pytest.importorskip("pyoxigraph")
    path = tmp_path / f"a{ending}"
    answers = run.query(relation="r0", k=9)
    answers.write(path)
    assert read_triples(path).frame.rows() == as_facts(answers)
    graph = bilink.load_graph(path, fractions=(1, 0, 0))
    assert len(graph.triples) == 9
    assert set(graph.entities.names) <= set(run.graph.entities.names)
    sure = Answers("?", [replace(a, probability=0.25) for a in answers], 0.1)
    sure.write(path)
    assert path.read_text().count('"0.25"') == 9
    with pytest.warns(DataWarning, match="9 statements"):
        assert read_triples(path).frame.rows() == as_facts(answers)


def test_names_that_a_format_cannot_hold(tmp_path):
    odd = named_run('a "quoted" name', "two\tcells", "a, b")
    answers = odd.query(relation="r0", only=odd.graph.entities.names[:3], k=9)
    with pytest.raises(DataError, match=r"'two\\tcells' .*contains a tab.* choose .csv"):
        answers.write(tmp_path / "a.tsv")
    assert not list(tmp_path.iterdir())
    answers.write(tmp_path / "a.csv")
    assert polars.read_csv(tmp_path / "a.csv")["head"].to_list() == [a.head for a in answers]
    answers = odd.query(relation="r0", only=[odd.graph.entities.names[i] for i in (0, 2)], k=9)
    answers.write(tmp_path / "a.tsv")
    cells = [line.split("\t")[0] for line in (tmp_path / "a.tsv").read_text().splitlines()]
    assert cells[1:] == [a.head for a in answers]


def test_a_file_of_another_ending_is_refused(run, tmp_path, monkeypatch):
    answers = run.query(relation="r0", k=4)
    for name in ("a.xlsx", "a", "a.tsv.gz"):
        with pytest.raises(ConfigError, match=r"must end in .tsv, .csv, .parquet, .json, .nt or"):
            answers.write(tmp_path / name)
    monkeypatch.setitem(sys.modules, "pyoxigraph", None)
    with pytest.raises(ConfigError, match=r"writing a.ttl needs pyoxigraph.*bilink\[rdf\]"):
        check_ending(tmp_path / "a.ttl", answers.endings)  # which is asked before any work
    assert not list(tmp_path.iterdir())


def test_questions_from_a_file(run, tmp_path):
    (tmp_path / "q.csv").write_text("Relation,head,tail\nr0,e1,?\nr0,,e2\n\nr1\n,e1,e2\n")
    questions = read_questions(tmp_path / "q.csv")
    sets = run.query_all(questions, k=2)
    assert [each.question for each in sets] == [
        "(e1, r0, ?)",
        "(?, r0, e2)",
        "(?, r1, ?)",
        "(e1, ?, e2)",
    ]
    assert sets[0].to_dict() == run.query(head="e1", relation="r0", k=2).to_dict()
    frame = sets.to_polars()
    assert frame.columns[0] == "question"
    assert len(frame) == 8
    for text, message in (
        ("e1\tr0\t?\ne1\tr99\t\n", r"q.tsv:2: unknown relation 'r99'"),
        ("e1\tr0\t?\t?\n", "4 cells"),
        ("\n", "no questions"),
        ("e1\n", "give a relation"),
    ):
        (tmp_path / "q.tsv").write_text(text)
        with pytest.raises((DataError, ConfigError), match=message):
            run.query_all(read_questions(tmp_path / "q.tsv"))
    with pytest.raises(ConfigError, match=r"^k must be at least 1"):  # no line is to blame
        run.query_all(questions, k=0)
    with pytest.raises(DataError, match="no file"):
        read_names(tmp_path / "nowhere.txt")


def test_names_in_a_file_of_questions_are_cut_as_in_a_file_of_triples(tmp_path):
    (tmp_path / "q.tsv").write_text('"a" \tr\t?\r\nb\u2028c\tr\t\n', encoding="utf-8")
    found = read_questions(tmp_path / "q.tsv")
    assert [question.head for question in found] == ['"a" ', "b\u2028c"]
    (tmp_path / "names.txt").write_text("a \n\nb\u0085c\n", encoding="utf-8")
    assert read_names(tmp_path / "names.txt") == ["a ", "b\u0085c"]


def test_names_are_searched_by_prefix_then_word_then_anywhere():
    labels = {
        "Q1": "Österreich",
        "Q2": "New York",
        "Q3": "Yorkshire",
        "Q4": "Newyork",
        "Q5": "York",
    }
    words = Vocabulary("entity", tuple(labels), labels)
    shown = [labels[words.names[i]] for i in words.search("YORK")]
    assert shown == ["York", "Yorkshire", "New York", "Newyork"]
    assert words.search("osterr") == [0]
    assert words.search("q3") == [2]
    assert words.search("york", 2) == [4, 2]
    assert words.search("nothing") == []
    assert len(words.search("")) == 5


def test_ambiguous_labels_are_shown_and_not_guessed():
    names = Vocabulary("entity", ("Q1", "Q2", "Q3"), {"Q1": "Georgia", "Q2": "Georgia"})
    with pytest.raises(DataError, match="'Georgia' is the label of 2 entities: Q1, Q2"):
        names.find("Georgia")
    with pytest.raises(DataError, match="did you mean 'Georgia'"):
        names.find("Georga")
    assert names.find("Q3") == 2


def test_a_relation_without_facts_can_be_asked_about():
    base = random_graph(n_relations=2)
    graph = Graph("g", base.entities, base.relations, [[0, 0, 1]], [[2, 0, 3]], [])
    run = bilink.train(graph, "distmult", 2, epochs=1)
    assert len(run.query(relation="r1", k=4)) == 4
    assert len(run.query(relation="r1", only="seen")) == 0


def test_the_beginning_of_a_name_is_enough_for_a_hint():
    names = Vocabulary("entity", ("Goran Weiss", "Ines Tamm", "Ines Okafor-Lindqvist"))
    with pytest.raises(DataError, match="did you mean 'Ines Tamm' or 'Ines Okafor-Lindqvist'"):
        names.find("ines")
