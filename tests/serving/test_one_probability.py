"""One triple has one probability, wherever it is shown."""

import json
from urllib.parse import urlencode

import pytest
from typer.testing import CliRunner

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

from starlette.testclient import TestClient

import bilink
from bilink.cli import app
from bilink.serving.app import make_app

SAME = 1e-9
SHARES = (None, 0.3)  # of missing facts


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("one") / "run"
    bilink.train("atlas", "complex", 16, epochs=8, threads=1, out=out)
    return out


@pytest.fixture(scope="module")
def run(folder):
    return bilink.load(folder)


def triple_of(answer):
    return answer.head, answer.relation, answer.tail


@pytest.fixture(scope="module")
def triples(run):
    """New facts, facts of valid and test, and an answer far down a list: none of train."""
    names, relations = run.graph.entities.names, run.graph.relations.names
    held_out = [*run.graph.valid[:2].tolist(), *run.graph.test[:2].tolist()]
    chosen = [triple_of(answer) for answer in [*run.new_facts(20)][::7]]
    chosen += [(names[h], relations[r], names[t]) for h, r, t in held_out]
    chosen += [triple_of(run.query(head="Austria", relation="borders", k=60)[59])]
    assert None not in run.probability(chosen)
    assert len(set(chosen)) == len(chosen) == 8
    return chosen


def questions(triple):
    """The questions that a triple can answer, each with enough answers that it is among them."""
    head, relation, tail = triple
    return (
        {"head": head, "relation": relation, "k": 1000},
        {"relation": relation, "tail": tail, "k": 1000},
        {"head": head, "tail": tail, "k": 20},
    )


def found_in(answers, triple):
    """The probability of the triple in rows of answers."""
    return [
        row["probability"]
        for row in answers
        if (row["head"], row["relation"], row["tail"]) == triple
    ]


def same(found, wanted):
    assert found, "the triple is not among the answers"
    assert found == pytest.approx([wanted] * len(found), rel=0, abs=SAME)


@pytest.mark.parametrize("missing", SHARES)
def test_python_has_one_number(run, triples, missing):
    for triple, wanted in zip(triples, run.probability(triples, missing), strict=True):
        same(run.probability([triple], missing), wanted)
        same([run.explain(*triple, missing=missing).probability], wanted)
        for question in questions(triple):
            same(found_in(run.query(**question, missing=missing).rows(), triple), wanted)
            few = {**question, "k": 3}
            assert all(
                chance == pytest.approx(wanted, rel=0, abs=SAME)
                for chance in found_in(run.query(**few, missing=missing).rows(), triple)
            )


def test_a_search_has_the_same_numbers(run):
    for answers in (
        run.new_facts(20),
        run.query(relation="borders", new=True, k=20),
        run.query(relation="borders", k=20),
    ):
        chances = [a.probability for a in answers if a.probability is not None]
        alone = [run.probability([triple_of(a)])[0] for a in answers if a.probability is not None]
        assert chances == pytest.approx(alone, rel=0, abs=SAME)
    assert len(chances) < 20  # some are training facts


@pytest.mark.parametrize("missing", SHARES)
def test_the_command_line_has_the_same_numbers(run, folder, triples, missing):
    def ask(*words):
        given = () if missing is None else ("--missing", str(missing))
        done = CliRunner().invoke(app, ["query", str(folder), *words, *given, "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    for triple, wanted in zip(triples, run.probability(triples, missing), strict=True):
        for question in questions(triple):
            names = {"-k" if key == "k" else f"--{key}": str(v) for key, v in question.items()}
            words = [word for pair in names.items() for word in pair]
            same(found_in(ask(*words)["answers"], triple), wanted)
        head, relation, tail = triple
        found = ask("--head", head, "--relation", relation, "--tail", tail)
        same([found["probability"]], wanted)
    new = ask("--new", "-k", "20")["answers"]
    alone = run.probability([(a["head"], a["relation"], a["tail"]) for a in new], missing)
    assert [a["probability"] for a in new] == pytest.approx(alone, rel=0, abs=SAME)


@pytest.mark.parametrize("missing", SHARES)
def test_the_server_has_the_same_numbers(run, triples, missing):
    given = {} if missing is None else {"missing": missing}
    with TestClient(make_app(run), "http://localhost") as client:
        wanted = run.probability(triples, missing)
        scored = client.post("/api/score", params=given, json={"triples": triples}).json()
        assert [row["probability"] for row in scored["scores"]] == pytest.approx(
            wanted, rel=0, abs=SAME
        )
        for triple, chance in zip(triples, wanted, strict=True):
            for question in questions(triple):
                found = client.get("/api/query", params={**question, **given}).json()
                same(found_in(found["answers"], triple), chance)
            named = dict(zip(("head", "relation", "tail"), triple, strict=True))
            found = client.get("/api/explain", params={**named, **given}).json()
            same([found["probability"]], chance)
        new = client.get("/api/query", params={"new": True, "k": 20, **given}).json()["answers"]
        alone = run.probability([(a["head"], a["relation"], a["tail"]) for a in new], missing)
        assert [a["probability"] for a in new] == pytest.approx(alone, rel=0, abs=SAME)


def percent(p):
    """As the page shows a probability."""
    if p >= 0.9995:
        return "> 99.9 %"
    if p < 0.0005:
        return "< 0.1 %"
    value = 100 * p
    return f"{value:.1f} %" if value < 10 or value > 99 else f"{round(value)} %"


def test_the_page_shows_the_same_numbers(run, triples):
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    pytest.importorskip("selenium", reason="selenium is not installed")
    from browser import chromium, served

    with served(run) as address, chromium() as person:
        for triple, wanted in zip(triples, run.probability(triples), strict=True):
            head, relation, tail = triple
            person.open(
                f"{address}?{urlencode({'head': head, 'relation': relation, 'tail': tail})}"
            )
            assert person.texts(".rows .value") == [percent(wanted)]
            person.open(f"{address}?{urlencode({'head': head, 'relation': relation, 'k': 1000})}")
            shown = dict(
                zip(person.texts(".rows .what"), person.texts(".rows .value"), strict=True)
            )
            assert shown[run.graph.entities.label(run.graph.entities.find(tail))] == percent(wanted)
