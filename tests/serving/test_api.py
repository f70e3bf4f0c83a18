"""The HTTP interface, version 1: pages, batches, several runs, close names, tags, the schema."""

import gzip
import json
import threading
import time
from unittest import mock

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

from small import SmallRun, large_run
from starlette.testclient import TestClient

from bilink.data.graph import Graph
from bilink.data.vocabulary import Vocabulary
from bilink.errors import ConfigError
from bilink.serving import cards
from bilink.serving.app import make_app
from bilink.serving.batch import MOST_ANSWERS, answer_batch
from bilink.serving.explorer import Explorer
from bilink.serving.names import AT_ONCE, CloseNames, Names, _distance
from bilink.serving.pools import Background
from bilink.serving.runs import Runs
from conftest import random_graph

HOME = "http://localhost:8000"
COUNTRIES = ("China", "Chile", "Germany", "Österreich", "United Kingdom", "Peru", "Côte d'Ivoire")


@pytest.fixture(scope="module")
def run():
    run = SmallRun(random_graph(n_entities=60, n_relations=4, size=500))
    run.calibrate()
    return run


@pytest.fixture(scope="module")
def other():
    return SmallRun(random_graph(n_entities=60, n_relations=4, size=500), seed=5)


class Decided:
    """Everything with e1 as its head is rejected."""

    version = 1

    def decision(self, head, relation, tail):
        return "reject" if head == "e1" else None

    def counts(self):
        return {"accept": 0, "reject": 1, "unsure": 0}


def reviewed_app(runs, decided):
    with mock.patch("bilink.serving.app.Marks", return_value=decided):
        return make_app(runs)


@pytest.fixture(scope="module")
def client(run, other):
    app = reviewed_app([run, other], Decided())
    with TestClient(app, HOME, raise_server_exceptions=False) as client:
        yield client


def ask(client, path, **params):
    found = client.get(f"/api/v1/{path}", params=params)
    assert found.status_code == 200, found.text
    return found.json()


def named_run(names, size=200):
    plain = random_graph(n_entities=len(names), n_relations=2, size=size)
    entities = Vocabulary("entity", tuple(names))
    parts = (plain.relations, plain.train, plain.valid, plain.test)
    return SmallRun(Graph("named", entities, *parts))


# -- pages ----------------------------------------------------------------------------------------


def names_of(row):
    return row["head"], row["relation"], row["tail"]


@pytest.mark.parametrize(
    "question",
    [
        {"head": "e1", "relation": "r0"},
        {"relation": "r1", "tail": "e2", "new": True},
        {"head": "e1", "tail": "e3"},
        {"relation": "r2", "new": True},
        {"relation": "r2"},
        {},
    ],
)
@pytest.mark.parametrize("number", ["0", "1"])
def test_pages_hold_every_answer_once_and_in_order(client, question, number):
    pages, offset = [], 0
    while len(pages) < 9:
        page = ask(client, "query", **question, k=7, offset=offset, run=number)
        assert page["offset"] == offset
        assert [row["rank"] for row in page["answers"]] == [
            offset + i for i in range(1, len(page["answers"]) + 1)
        ]
        assert page["answers"] or not pages
        pages.append(page)
        offset += 7
        if not page["more"]:
            break
        assert len(page["answers"]) == 7
    rows = [names_of(row) for page in pages for row in page["answers"]]
    assert len(rows) == len(set(rows)) > 3
    first = ask(client, "query", **question, k=7, run=number)
    assert first["answers"] == pages[0]["answers"]


def test_pages_of_all_entities_are_all_entities(client, run):
    question = {"head": "e1", "relation": "r0", "any_entity": True}
    wanted = len(run.query(head="e1", relation="r0", k=1000))
    pages = [ask(client, "query", **question, k=9, offset=at) for at in range(0, 70, 9)]
    assert sum(len(page["answers"]) for page in pages) == wanted
    assert [page["more"] for page in pages] == [9 * (i + 1) < wanted for i in range(len(pages))]


def test_the_facts_of_a_group_can_be_paged_through(client):
    card = ask(client, "entity", name="e1")
    group = max(card["groups"], key=lambda group: group["count"])
    question = {"entity": "e1", "relation": group["relation"]["name"], "side": group["side"]}
    found, offset, more = [], 0, True
    while more:
        page = ask(client, "facts", **question, k=2, offset=offset)
        assert page["count"] == group["count"]
        found += page["entities"]
        offset, more = offset + 2, page["more"]
    assert found == group["entities"]
    assert ask(client, "facts", **question, offset=10**6)["entities"] == []


def test_search_and_doubts_have_pages(client, run, monkeypatch):
    first = ask(client, "search", text="e", k=50)
    rest = ask(client, "search", text="e", k=50, offset=50)
    assert (first["more"], rest["more"]) == (True, False)
    assert len({row["name"] for row in first["matches"] + rest["matches"]}) == 60
    triple = {"head": "e1", "relation": "r0", "tail": "e2"}
    labels = {f"{name}_label": value for name, value in triple.items()}
    doubt = {**triple, **labels, "probability": 0.1, "score": 1.0, "side": None, "suggestion": None}
    monkeypatch.setattr("bilink.serving.explorer.doubts_of", lambda run: [doubt] * 5)
    with TestClient(reviewed_app(run, Decided()), HOME) as fresh:
        page = ask(fresh, "audit", k=3, offset=3)
    assert (len(page["doubts"]), page["count"], page["more"]) == (2, 5, False)
    assert page["doubts"][0]["decision"] == "reject"


# -- batches --------------------------------------------------------------------------------------


def test_a_batch_has_the_answers_of_its_questions_one_by_one(client):
    questions = [
        {"head": "e1", "relation": "r0", "k": 3},
        {"head": "e2", "relation": "r1", "k": 3},
        {"relation": "r1", "tail": "e4", "new": True, "seen": True},
        {"head": "e1", "tail": "e2"},
        {"head": "e5", "relation": "r0", "k": 3, "offset": 3, "missing": 0.3},
    ]
    for number in ("0", "1"):
        body = {"questions": questions, "run": number}
        found = client.post("/api/v1/queries", json=body).json()["results"]
        for question, result in zip(questions, found, strict=True):
            wanted = ask(client, "query", **question, run=number)
            for answers in (result["answers"], wanted):
                for row in answers["answers"]:
                    row["score"] = pytest.approx(row["score"], rel=1e-5)
            assert result == {"answers": wanted, "error": None}


def test_a_question_without_an_answer_spoils_itself_alone(client):
    questions = [{"head": f"e{i % 60}", "relation": "r0", "k": 1} for i in range(100)]
    questions[7]["head"] = "e9999"
    questions[8]["relation"] = "r9999"
    questions[9] = {"relation": "r0"}
    questions[10]["missing"] = 7
    found = client.post("/api/v1/queries", json={"questions": questions}).json()["results"]
    failed = {i: row["error"]["code"] for i, row in enumerate(found) if row["answers"] is None}
    assert failed == {7: "unknown-entity", 8: "unknown-relation", 9: "invalid", 10: "invalid"}


def test_a_batch_that_is_stopped_says_which_questions_were_not_reached(run):
    explorer = Explorer(run)
    question = dict.fromkeys(("head", "relation", "tail", "missing"))
    question |= {"k": 1, "offset": 0, "new": False, "seen": False, "any_entity": False}
    questions = [{**question, "head": f"e{i % 60}", "relation": "r0"} for i in range(100)]
    turns = iter([False, True])
    found = answer_batch(explorer, questions, lambda: next(turns))["results"]
    assert [row["error"] is None for row in found] == [True] * 64 + [False] * 36
    assert found[-1]["error"]["code"] == "slow"
    questions = [{**questions[0], "k": 1000}] * (MOST_ANSWERS // 1000 + 1)
    with pytest.raises(ConfigError, match="ask for fewer"):
        answer_batch(explorer, questions)


def test_one_unknown_name_does_not_spoil_the_other_scores(client, run):
    triples = [["e1", "r0", "e2"], ["e1", "r0", "nobody"], ["e3", "r1", "e4"]]
    first, wrong, last = client.post("/api/v1/score", json={"triples": triples}).json()["scores"]
    assert wrong["error"]["code"] == "unknown-entity"
    scores = run.score([tuple(triples[0]), tuple(triples[2])])
    assert [first["score"], last["score"]] == pytest.approx(scores.tolist())


# -- several runs ---------------------------------------------------------------------------------


def test_each_run_answers_under_its_number(client, run, other):
    rows = ask(client, "info")["runs"]
    assert [row["id"] for row in rows] == ["0", "1"]
    assert len({row["name"] for row in rows}) == 2
    for number, each in (("0", run), ("1", other)):
        found = ask(client, "query", head="e1", relation="r0", run=number)
        assert [row["tail"] for row in found["answers"]] == [
            answer.tail for answer in each.query(head="e1", relation="r0")
        ]
    found = client.get("/api/v1/query", params={"head": "e1", "relation": "r0", "run": "7"})
    assert (found.status_code, found.json()["code"]) == (404, "unknown-run")


def test_runs_are_compared_where_they_disagree_most_first(client, run, other):
    found = ask(client, "compare", head="e1", relation="r0", k=5, any_entity=True)
    assert found["runs"] == ["0", "1"]
    assert found["note"] is None
    rows = {row["tail"]: row for row in found["rows"]}
    best = {
        number: [a.tail for a in each.query(head="e1", relation="r0", k=5, any_entity=True)]
        for number, each in (("0", run), ("1", other))
    }
    assert set(rows) == {tail for tails in best.values() for tail in tails}
    for number, tails in best.items():
        assert [rows[tail]["answers"][number]["rank"] for tail in tails] == [1, 2, 3, 4, 5]
    apart = [row["disagreement"] for row in found["rows"]]
    assert apart == sorted(apart, reverse=True)
    assert ask(client, "compare", relation="r0")["rows"]
    assert ask(client, "compare", head="e1", tail="e2")["rows"]


def test_runs_of_different_graphs_say_so_and_a_run_can_join_later(run):
    runs = Runs([run])
    assert runs.add(named_run(["e1", *COUNTRIES]), "later") == "1"
    options = {"new": False, "seen": False, "any_entity": True, "missing": None}
    found = runs.compare("e1", "r0", None, 3, **options)
    assert "different graphs" in found["note"]
    assert any(row["answers"]["0"] is None for row in found["rows"])
    assert any(row["answers"]["1"] is None for row in found["rows"])
    assert runs.info()["runs"][1]["name"] == "later"
    runs.close()


# -- decisions ------------------------------------------------------------------------------------


def test_rows_carry_what_was_decided(client):
    assert ask(client, "info")["decisions"] == {"accept": 0, "reject": 1, "unsure": 0}
    for head, wanted in (("e1", "reject"), ("e2", None)):
        found = ask(client, "query", head=head, relation="r0")
        assert {row["decision"] for row in found["answers"]} == {wanted}
    found = ask(client, "query", relation="r0", k=50)
    assert {row["decision"] for row in found["answers"]} == {"reject", None}


# -- names ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def atlas():
    with TestClient(make_app(named_run(COUNTRIES)), HOME) as client:
        yield client


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("Chna", "China"),
        ("Grmany", "Germany"),
        ("germnay", "Germany"),
        ("osterriech", "Österreich"),
        ("untied kingdm", "United Kingdom"),
        ("cote divoire", "Côte d'Ivoire"),
        ("united kingdon of great", "United Kingdom"),
    ],
)
def test_search_forgives_typing_errors(atlas, typed, meant):
    found = ask(atlas, "search", text=typed)["matches"]
    if typed.startswith("united kingdon of"):
        assert found == []  # too far
    else:
        assert found[0]["name"] == meant
    wrong = atlas.get("/api/v1/entity", params={"name": typed})
    assert (wrong.status_code, wrong.json()["code"]) == (404, "unknown-entity")
    if found:
        assert wrong.json()["suggestions"][0] == {"name": meant, "label": meant}


def test_a_name_is_known_in_any_case_and_without_accents(atlas):
    for typed, meant in (("china", "China"), ("OSTERREICH", "Österreich"), ("perú", "Peru")):
        assert ask(atlas, "entity", name=typed)["name"] == meant


def test_what_two_names_have_in_common_is_ambiguous():
    with TestClient(make_app(named_run(["Turkey", "turkey", "Peru"])), HOME) as client:
        assert ask(client, "entity", name="turkey")["name"] == "turkey"
        found = client.get("/api/v1/entity", params={"name": "TURKEY"}).json()
    assert found["code"] == "ambiguous"
    assert {row["name"] for row in found["suggestions"]} == {"Turkey", "turkey"}


def test_nothing_is_added_to_what_begins_as_typed(atlas):
    assert [row["name"] for row in ask(atlas, "search", text="chi")["matches"]] in (
        ["China", "Chile"],
        ["Chile", "China"],
    )


@pytest.mark.parametrize(
    ("typed", "text", "errors"),
    [
        ("abc", "abc", 0),
        ("acb", "abc", 1),
        ("ab", "abc", 0.5),
        ("xbc", "abcd", 1.5),
        ("", "a", 0.5),
    ],
)
def test_the_distance_of_two_texts(typed, text, errors):
    assert _distance(typed, text) == errors


def test_close_names_of_many_are_found_once_the_index_is_built():
    run = large_run(AT_ONCE + 1000)
    background = Background()
    gate = threading.Event()
    background.add(gate.wait)
    names = Names(run.graph.entities, np.ones(len(run.graph.entities)), background)
    assert names.search("thnig 000123 of kind", 3) == ([], False)
    gate.set()
    done = threading.Event()
    background.add(done.set)
    assert done.wait(30)
    found, _ = names.search("thnig 000123 of kind", 3)
    assert names.row(found[0])["name"].startswith("thing 000123")
    background.close()


def test_hostile_texts_have_close_names_too():
    vocabulary = Vocabulary("entity", ("", "a", "\ud800b", "\x00" * 10, "??"))
    close = CloseNames(vocabulary)
    for text in ("", "\ud800\ud800b", "x" * 10**5, "????", "\x00\x00"):
        close.search(text, 3, np.ones(5))
    assert CloseNames(Vocabulary("entity", ())).search("abc", 3, np.empty(0)) == []


# -- cards ----------------------------------------------------------------------------------------


def test_the_card_of_a_relation_comes_at_once_and_is_completed_later(run, monkeypatch):
    gate = threading.Event()
    real = cards.ask_test
    monkeypatch.setattr(cards, "ask_test", lambda *args: gate.wait(30) and real(*args))
    monkeypatch.setattr("bilink.serving.app.CARD_SECONDS", 0.05)
    with TestClient(make_app(run), HOME) as client:
        found = ask(client, "relation", name="r0")
        assert found["pending"] is True
        assert found["calibration"] is None
        assert found["train"] > 0
        end = time.monotonic() + 20  # what takes minutes keeps nothing else waiting
        while ask(client, "relation", name="r0")["theory"] is None:
            assert time.monotonic() < end
        gate.set()
        whole = client.get("/api/relation", params={"name": "r0"}).json()
        assert whole["pending"] is False
        assert whole["theory"]["facts"] > 0


def test_what_somebody_waits_for_is_done_while_callers_are_answered(monkeypatch):
    monkeypatch.setattr(Background, "LONGEST_WAIT", 60.0)
    background, done = Background(time.monotonic), threading.Event()  # somebody asks all the time
    background.add(done.set, first=True)
    assert done.wait(20)
    background.close()


def test_work_in_the_background_goes_on_after_an_error_and_after_an_end():
    background, found = Background(), []
    done = threading.Event()
    background.add(lambda: 1 / 0)
    background.add(lambda: found.append(1))
    background.add(done.set)
    assert done.wait(10)
    background.close()
    done.clear()
    background.add(done.set)
    assert done.wait(10)
    assert found == [1]
    background.close()


# -- how answers travel ---------------------------------------------------------------------------


def test_an_answer_that_the_caller_has_is_not_sent_again(client, run):
    question = {"head": "e1", "relation": "r0"}
    first = client.get("/api/v1/query", params=question)
    tag = first.headers["etag"]
    again = client.get("/api/v1/query", params=question, headers={"if-none-match": tag})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == tag
    assert "content-security-policy" in again.headers
    other = client.get("/api/v1/query", params={**question, "k": 3}, headers={"if-none-match": tag})
    assert other.status_code == 200
    decided = Decided()
    with TestClient(reviewed_app(run, decided), HOME) as fresh:
        tag = fresh.get("/api/v1/query", params=question).headers["etag"]
        decided.version += 1
        changed = fresh.get("/api/v1/query", params=question, headers={"if-none-match": tag})
        assert changed.status_code == 200
    for path in ("/", "/docs", "/docs.js", "/openapi.json"):
        tag = client.get(path).headers["etag"]
        assert client.get(path, headers={"if-none-match": f'"x", {tag}'}).status_code == 304


def test_long_answers_are_compressed_for_those_who_understand_that(client):
    def fetch(path, accepted):
        headers = {"accept-encoding": accepted}
        with client.stream("GET", path, headers=headers) as found:
            return found.headers, b"".join(found.iter_raw())

    for path in ("/api/v1/map", "/openapi.json", "/docs.js"):
        headers, whole = fetch(path, "identity")
        assert "content-encoding" not in headers
        headers, packed = fetch(path, "br, gzip")
        assert headers["content-encoding"] == "gzip"
        assert "accept-encoding" in headers["vary"].lower()
        assert gzip.decompress(packed) == whole
        assert len(packed) < len(whole) / 2
        assert "content-encoding" not in fetch(path, "gzip;q=0")[0]
    assert "content-encoding" not in fetch("/api/v1/search?text=e1&k=1", "gzip")[0]


def test_the_schema_describes_each_parameter_and_names_each_operation(client):
    schema = client.get("/openapi.json").json()
    assert schema == client.get("/api/v1/openapi.json").json()
    assert schema == client.get("/api/openapi.json").json()
    assert all(path.startswith("/api/v1/") for path in schema["paths"])
    operations = [each for path in schema["paths"].values() for each in path.values()]
    names = {each["operationId"] for each in operations}
    assert len(names) == len(operations)
    assert {"query", "query_batch", "score", "explain", "facts", "compare", "info"} <= names
    for each in operations:
        assert each["tags"]
        assert each["description"]
        for parameter in each.get("parameters", ()):
            assert parameter["description"], (each["operationId"], parameter["name"])
        assert {"400", "401", "403", "404", "413", "422", "503", "504"} <= set(each["responses"])


def test_the_page_of_the_schema_needs_nothing_from_elsewhere(client):
    page = client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    for path in ("docs.js", "docs.css"):
        assert path in page.text
        text = client.get(f"/{path}").text
        assert "http" not in text
        assert "innerHTML" not in text
    assert "http" not in page.text


def test_refusals_have_codes_too(run):
    def code(found):
        return found.status_code, found.json()["code"]

    with TestClient(make_app(run, token="open-sesame", hosts={"localhost"}), HOME) as client:
        assert code(client.get("/api/v1/info")) == (401, "unauthorized")
        assert code(client.get("/api/v1/info", headers={"host": "evil"})) == (403, "forbidden")
        client.headers["authorization"] = "Bearer open-sesame"
        assert code(client.get("/api/v1/nothing")) == (404, "not-found")
        assert code(client.post("/api/v1/info")) == (405, "wrong-method")
        assert code(client.get("/api/v1/query?k=0")) == (422, "invalid")
        assert code(client.get("/api/v1/query?head=e1")) == (400, "invalid")
        long = client.post("/api/v1/queries", content=b" " * (2**20 + 1))
        assert code(long) == (413, "too-large")
        body = json.dumps({"questions": [{}] * 1001}).encode()
        assert code(client.post("/api/v1/queries", content=body)) == (422, "invalid")
