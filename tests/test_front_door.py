"""What a stranger hands to bilink, and what a notebook shows of the answer."""

import doctest
import importlib
from html.parser import HTMLParser

import numpy as np
import polars as pl
import pytest

import bilink
from bilink.data.loading import graph_or_source

BOLD = "<b>Ann</b> & Co"
TRIPLES = [
    *((f"{BOLD} {i}", "likes <i>", f"thing {j}") for i in range(60) for j in {i % 7, i % 5, i % 3}),
    *((f"thing {i}", "made by", BOLD) for i in range(7)),
]


@pytest.fixture(scope="module")
def run():
    return bilink.train(TRIPLES, model="paths")


def pandas_frame():
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(TRIPLES, columns=["head", "relation", "tail"])


def directed_graph():
    networkx = pytest.importorskip("networkx")
    graph = networkx.MultiDiGraph()
    graph.add_edges_from((head, tail, relation) for head, relation, tail in TRIPLES)
    return graph


def labelled_graph():
    networkx = pytest.importorskip("networkx")
    graph = networkx.DiGraph()
    for head, relation, tail in TRIPLES:
        graph.add_edge(head, tail, label=relation)
    return graph


@pytest.mark.parametrize(
    "make",
    [
        lambda: pl.DataFrame(TRIPLES, schema=["head", "relation", "tail"], orient="row"),
        pandas_frame,
        lambda: iter(TRIPLES),
        lambda: np.array(TRIPLES),
        directed_graph,
        labelled_graph,
    ],
)
def test_triples_in_memory_become_the_same_graph(make, run):
    graph = graph_or_source(make())
    names = {
        tuple(found)
        for h, r, t in graph.triples.tolist()
        for found in [(graph.entities.names[h], graph.relations.names[r], graph.entities.names[t])]
    }
    assert names == set(TRIPLES)
    assert len(graph.triples) == len(run.graph.triples) == len(TRIPLES)


def undirected():
    return pytest.importorskip("networkx").path_graph(3)


def without_relations():
    networkx = pytest.importorskip("networkx")
    return networkx.path_graph(3, create_using=networkx.DiGraph)


KNOWN = (f"{BOLD} 1", "likes <i>", "thing 1")


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda run: bilink.train(3), "expected a file, a folder, a name"),
        (lambda run: bilink.train({"head": ["a"]}), "expected a file, a folder, a name"),
        (lambda run: bilink.train([1, 2]), "row 1: expected head, relation, tail: 1"),
        (lambda run: bilink.train([(1, 2, 3)]), r"names must be strings, not 1; write str\(…\)"),
        (lambda run: bilink.train(undirected()), "which end of an edge is the head"),
        (lambda run: bilink.train(without_relations()), "names no relation"),
        (lambda run: bilink.train(TRIPLES, model=3), "model must be a name"),
        (lambda run: bilink.train(TRIPLES, dim="a"), "dim must be at least 1, not a"),
        (lambda run: bilink.load(3), "expected the folder of a run"),
        (lambda run: bilink.load_graph(3), "bilink.graph_from_triples"),
        (lambda run: bilink.combine([run, 3]), "expected a list of runs"),
        (lambda run: bilink.audit(3), "expected a run"),
        (lambda run: run.query(head=3), "the name of an entity must be text, not '3'"),
        (lambda run: run.query(head=BOLD, relation=["made by"]), "the name of a relation must be"),
        (lambda run: run.query(head=BOLD, relation="made by", k="3"), "k must be a whole number"),
        (lambda run: run.query(head=BOLD, relation="made by", only=3), "only must be 'seen'"),
        (lambda run: run.query(head=BOLD, relation="made by", missing="a"), "missing must be a"),
        (lambda run: run.query_all(3), "expected a list of questions, not '3'"),
        (lambda run: run.query_all("questions.tsv"), "bilink.read_questions reads a file"),
        (lambda run: run.query_all([3]), r"a question is \(head, relation, tail\) with None"),
        (lambda run: run.query_all([(BOLD, None)]), r"a question is \(head, relation, tail\)"),
        (lambda run: run.probability(3), r"expected a list of \(head, relation, tail\), not '3'"),
        (lambda run: run.probability("abc"), r"expected a list of \(head, relation, tail\)"),
        (lambda run: run.probability(KNOWN), "not one triple: put it in brackets"),
        (lambda run: run.probability([KNOWN[:2]]), "head, relation and tail, three names"),
        (lambda run: run.probability(pl.DataFrame([KNOWN])), r"pass frame.rows\(\)"),
        (lambda run: run.explain(BOLD, 3, BOLD), "the name of a relation must be text"),
        (lambda run: run.update(3), r"expected a list of \(head, relation, tail\)"),
        (lambda run: run.write("folder"), "run.save"),
    ],
)
def test_a_wrong_type_gets_a_sentence(run, ask, message):
    with pytest.raises(bilink.BilinkError, match=message):
        ask(run)


def test_questions_may_be_tuples(run):
    asked = run.query_all([(BOLD + " 1", "likes <i>", None), ("?", "made by", BOLD)], k=2)
    assert [len(answers) for answers in asked] == [2, 2]
    single = run.query(head=BOLD + " 1", relation="likes <i>", k=2)
    assert asked[0].rows() == single.rows()


def test_a_run_made_in_memory_is_saved_and_read_again(run, tmp_path):
    run.save(tmp_path / "kept")
    again = bilink.load(tmp_path / "kept")
    assert again.graph.fingerprint == run.graph.fingerprint
    assert again.score(TRIPLES[:5]) == pytest.approx(run.score(TRIPLES[:5]))
    with pytest.raises(bilink.BilinkError, match="exists"):
        run.save(tmp_path / "kept")
    run.save(tmp_path / "kept", force=True)


class Tags(HTMLParser):
    """Which tags there are, and whether each is closed."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], set()

    def handle_starttag(self, tag, attributes):
        assert not attributes
        self.seen.add(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def shown(value):
    tags = Tags()
    html = value._repr_html_()
    tags.feed(html)
    assert not tags.open
    assert not tags.seen & {"b", "i", "script"}, "names are text"
    return html


def test_a_notebook_shows_tables_and_names_as_text(run):
    answers = run.query(head=BOLD + " 1", relation="likes <i>", k=2)
    for value in (
        answers,
        run.query_all([(BOLD + " 1", "likes <i>", None)]),
        run.rules(),
        run.explain(*KNOWN),
    ):
        assert "&lt;" in shown(value)
    for value in (run, run.graph, run.evaluate(), run.classify()):
        assert "<table>" in shown(value)


def test_of_long_tables_the_start_is_shown(run):
    html = shown(run.query(tail="thing 1", relation="likes <i>", k=60, any_entity=True))
    assert html.count("<tr>") == 51
    assert "more." in html


def test_what_is_printed_is_short(run):
    for value in (run, run.graph, run.graph.entities, run.evaluate(), run.classify()):
        assert len(repr(value)) < 250
        assert "\n" not in repr(value)
    assert "mrr" in repr(run.evaluate())


@pytest.mark.parametrize("module", ["bilink.data.graph", "bilink.data.loading"])
def test_examples_in_docstrings_do_what_they_show(module):
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, tried = doctest.testmod(importlib.import_module(module), optionflags=options)
    assert tried
    assert failed == 0
