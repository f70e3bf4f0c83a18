"""Reviewing over HTTP: decisions are kept, the queue leaves them out, an update knows them."""

import os
import shutil
import threading
import time

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

from small import SmallRun, hostile_run
from starlette.testclient import TestClient

import bilink
from bilink.errors import RunError
from bilink.runs.changes import Changes
from bilink.serving import review, updating
from bilink.serving.app import make_app
from bilink.serving.guard import LOOPBACK

HOME = "http://localhost:8000"
POSTS = ("decisions", "decisions/undo", "decisions/import", "update")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("trained") / "run"
    bilink.train("atlas", "distmult", 8, epochs=4, threads=1, out=out)
    return out


@pytest.fixture(scope="module")
def shared(trained):
    """The run as it was trained: for what changes nothing."""
    return bilink.load(trained)


@pytest.fixture
def folder(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


@pytest.fixture
def client(folder):
    app = make_app(bilink.load(folder), hosts=LOOPBACK, review=True)
    with TestClient(app, HOME, raise_server_exceptions=False) as client:
        yield client


def get(client, path, **params):
    found = client.get(f"/api/v1/{path}", params=params)
    assert found.status_code == 200, found.text
    return found.json()


def post(client, path, body, **options):
    found = client.post(f"/api/v1/{path}", json=body, **options)
    assert found.status_code in (200, 202), found.text
    return found.json()


def triple_of(row):
    return {name: row[name] for name in ("head", "relation", "tail")}


def decide(client, rows, decision, **more):
    wishes = [{**triple_of(row), "decision": decision, **more} for row in rows]
    return post(client, "decisions", {"decisions": wishes})


# -- without --review ------------------------------------------------------------------------------


def test_without_review_nothing_is_written(shared, trained):
    before = sorted(os.listdir(trained))
    with TestClient(make_app(shared, hosts=LOOPBACK), HOME) as client:
        fact = {"head": "Austria", "relation": "borders", "tail": "Perth", "decision": "accept"}
        for path in POSTS:
            for body in ({"decisions": [fact]}, {}, "x"):
                found = client.post(f"/api/v1/{path}", json=body)
                assert (found.status_code, found.json()["code"]) == (403, "review-off")
                assert "--review" in found.json()["error"]
        for path in ("decisions", "queue", "decisions/export"):
            found = client.get(f"/api/v1/{path}")
            assert (found.status_code, found.json()["code"]) == (403, "review-off")
        info = client.get("/api/info").json()
        assert (info["review"], info["decisions"]) == (False, None)
        row = client.get("/api/query?head=Austria&relation=borders&k=1").json()["answers"][0]
        assert row["decision"] is None
    assert sorted(os.listdir(trained)) == before


def test_without_review_what_was_decided_is_shown(folder):
    run = bilink.load(folder)
    answer = run.query(head="Austria", relation="borders", k=1)[0]
    run.decisions.accept(answer.head, answer.relation, answer.tail)
    with TestClient(make_app(bilink.load(folder), hosts=LOOPBACK), HOME) as client:
        assert get(client, "decisions")["count"] == 1
        assert client.get("/api/info").json()["decisions"] == {
            "accept": 1,
            "reject": 0,
            "unsure": 0,
        }
        row = client.get("/api/query?head=Austria&relation=borders&k=1").json()["answers"][0]
        assert row["decision"] == "accept"


def test_a_run_without_a_folder_cannot_be_reviewed():
    with pytest.raises(RunError, match="has none"):
        make_app(hostile_run(), review=True)


def test_a_damaged_file_stops_reviewing_but_no_answers(folder):
    (folder / "decisions.tsv").write_text("something else\nby hand\n")
    with pytest.raises(RunError, match="no file of decisions"):
        make_app(bilink.load(folder), review=True)
    with TestClient(make_app(bilink.load(folder), hosts=LOOPBACK), HOME) as client:
        assert client.get("/api/query?head=Austria&relation=borders&k=1").status_code == 200
        found = client.get("/api/v1/decisions")
        assert found.status_code == 400
        assert "no file of decisions" in found.json()["error"]


# -- decisions -------------------------------------------------------------------------------------


def test_decisions_are_kept_listed_and_taken_back(client, folder):
    rows = client.get("/api/query?head=Austria&relation=borders&new=true&k=3").json()["answers"]
    kept = decide(client, rows[:2], "accept", reason="an atlas")
    assert kept["counts"] == {"accept": 2, "reject": 0, "unsure": 0}
    assert kept["decisions"][0]["probability"] == pytest.approx(rows[0]["probability"])
    decide(client, rows[2:], "unsure")
    page = get(client, "decisions", k=2)
    assert [each["tail"] for each in page["decisions"]] == [rows[2]["tail"], rows[1]["tail"]]
    assert (page["count"], page["more"]) == (3, True)
    page = get(client, "decisions", decision="accept", offset=1)
    assert [each["tail"] for each in page["decisions"]] == [rows[0]["tail"]]
    assert (page["count"], page["more"]) == (2, False)
    assert page["decisions"][0]["reason"] == "an atlas"
    again = client.get("/api/query?head=Austria&relation=borders&new=true&k=3").json()["answers"]
    assert [row["decision"] for row in again] == ["accept", "accept", "unsure"]
    assert client.get("/api/info").json()["decisions"] == {"accept": 2, "reject": 0, "unsure": 1}

    undone = post(client, "decisions/undo", {})
    assert (undone["decision"], undone["triple"]) == (None, triple_of(rows[2]))
    decide(client, rows[:1], "reject")
    undone = post(client, "decisions/undo", {})
    assert undone["decision"]["decision"] == "accept"
    taken = decide(client, rows[:2], None)
    assert [each["decision"] for each in taken["decisions"]] == [None, None]
    assert taken["counts"] == {"accept": 0, "reject": 0, "unsure": 0}
    assert len((folder / "decisions.tsv").read_text().splitlines()) == 2 + 8


def test_two_servers_and_a_program_see_each_others_decisions(client, folder):
    other = bilink.load(folder)
    with TestClient(make_app(other, hosts=LOOPBACK, review=True), HOME) as second:
        (row,) = get(client, "queue", k=1)["rows"]
        decide(client, [row], "accept")
        assert get(second, "decisions")["decisions"][0]["tail"] == row["tail"]
        assert triple_of(get(second, "queue", k=1)["rows"][0]) != triple_of(row)
        other.decisions.reject(**triple_of(row))
        assert get(client, "decisions")["counts"] == {"accept": 0, "reject": 1, "unsure": 0}


def test_many_decisions_at_once_are_all_kept(client, folder):
    rows = get(client, "queue", k=24)["rows"]
    threads = [
        threading.Thread(target=decide, args=(client, rows[i::4], "accept")) for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert get(client, "decisions")["counts"]["accept"] == 24


def test_mistakes_get_a_sentence(client):
    fact = {"head": "Austria", "relation": "borders", "tail": "Perth"}
    for body, status in (
        ({"decisions": [{**fact, "decision": "maybe"}]}, 422),
        ({"decisions": [fact]}, 422),
        ({"decisions": [{**fact, "decision": "accept", "path": "/etc/passwd"}]}, 422),
        ({"decisions": [{**fact, "decision": "accept", "reason": "x" * 1001}]}, 422),
        ({"decisions": [{**fact, "tail": "Nowhere", "decision": "accept"}]}, 404),
    ):
        found = client.post("/api/v1/decisions", json=body)
        assert found.status_code == status, found.text
        assert found.json()["error"]
    found = client.post("/api/v1/decisions/undo", json={})
    assert (found.status_code, "no decision" in found.json()["error"]) == (400, True)
    found = client.post("/api/v1/update", json={})
    assert (found.status_code, "nothing was accepted" in found.json()["error"]) == (400, True)
    assert get(client, "decisions")["count"] == 0


def test_pages_of_other_sites_cannot_write(client, folder):
    fact = '{"decisions": [{"head": "Austria", "relation": "borders", "tail": "Perth", '
    fact += '"decision": "accept"}]}'
    plain = {"content-type": "text/plain"}
    for path in POSTS:
        for headers in (plain, {}, {"content-type": "application/x-www-form-urlencoded"}):
            found = client.post(f"/api/v1/{path}", content=fact, headers=headers)
            assert found.status_code == 415, found.text
        cross = {"sec-fetch-site": "cross-site", "content-type": "application/json"}
        assert client.post(f"/api/v1/{path}", content=fact, headers=cross).status_code == 403
        assert client.get(f"/api/v1/{path}").status_code in (200, 405)
    assert not (folder / "decisions.tsv").exists()


def test_names_of_any_kind_are_kept(tmp_path):
    run = hostile_run()
    run.path = tmp_path
    with TestClient(make_app(run, hosts=LOOPBACK, review=True), HOME) as client:
        names = run.graph.entities.names[:5]  # JSON of a client cannot hold the sixth
        rows = [{"head": a, "relation": "r0", "tail": b} for a in names for b in names if a != b]
        decide(client, rows, "accept")
        assert [triple_of(row) for row in get(client, "decisions", k=99)["decisions"]] == rows[::-1]
        kept = get(client, "decisions", k=99)["decisions"]
        assert all(row["head_label"].isprintable() for row in kept)
        assert set(os.listdir(tmp_path)) == {"decisions.tsv", ".decisions.lock"}


# -- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tsv", "csv", "json", "nt"])
def test_accepted_facts_are_exported(client, kind):
    if kind == "nt":
        pytest.importorskip("pyoxigraph")
    rows = get(client, "queue", k=3)["rows"]
    decide(client, rows[:2], "accept")
    decide(client, rows[2:], "reject")
    found = client.get(f"/api/v1/decisions/export?format={kind}")
    assert found.status_code == 200
    assert found.headers["content-disposition"] == f'attachment; filename="accept.{kind}"'
    if kind == "tsv":
        lines = found.text.splitlines()
        assert [line.split("\t")[:4] for line in lines[1:]] == [
            [row["head"], row["relation"], row["tail"], "1"] for row in rows[:2]
        ]
        headers = {"content-type": "text/tab-separated-values", "x-bilink": "1"}
        decide(client, rows[:2], None)
        back = client.post("/api/v1/decisions/import", content=found.content, headers=headers)
        assert back.json()["added"] == 2
        assert back.json()["counts"] == {"accept": 2, "reject": 1, "unsure": 0}
    if kind == "nt":
        assert client.get("/api/v1/decisions/export?format=nt&decision=reject").status_code == 400


def test_imported_rows_are_accounted_for(client):
    row, *_ = get(client, "queue", k=1)["rows"]
    text = "\t".join(triple_of(row).values()) + "\nAustria\tborders\tGermany\nX\tborders\tItaly\n"
    headers = {"content-type": "text/plain; charset=utf-8", "x-bilink": "1"}
    path = "/api/v1/decisions/import"
    found = client.post(path, content=text, headers=headers).json()
    assert (found["added"], found["known"], len(found["unknown"])) == (1, 1, 1)
    for wrong in (b"\xff\xfe", b"a\tb\n", b"a\tb\tc\tmaybe\n"):
        assert client.post(path, content=wrong, headers=headers).status_code in (400, 404)
    headers.pop("x-bilink")
    assert client.post(path, content=text, headers=headers).status_code == 415


# -- the queue -------------------------------------------------------------------------------------


def test_the_queue_begins_with_the_most_probable_and_leaves_out_what_was_decided(client, shared):
    rows = get(client, "queue", k=5)["rows"]
    wanted = [(a.head, a.relation, a.tail) for a in shared.new_facts(review.BATCH)][:5]
    assert [tuple(triple_of(row).values()) for row in rows] == wanted
    assert [row["rank"] for row in rows] == [1, 2, 3, 4, 5]
    decide(client, [rows[0], rows[2]], "unsure")
    again = get(client, "queue", k=3)
    assert [triple_of(row) for row in again["rows"]] == [triple_of(rows[i]) for i in (1, 3, 4)]
    assert again["more"]
    second = get(client, "queue", k=2, offset=1)["rows"]
    assert [triple_of(row) for row in second] == [triple_of(rows[i]) for i in (3, 4)]
    one = get(client, "queue", k=9, relation="borders")["rows"]
    assert {row["relation"] for row in one} == {"borders"}


def test_the_queue_for_learning_asks_what_is_uncertain_of_all_relations(client):
    rows = get(client, "queue", order="learning", k=12)["rows"]
    assert all(0.02 < row["probability"] < 0.98 for row in rows)
    assert all(row["why_asked"].endswith(".") for row in rows)
    assert len({row["relation"] for row in rows}) >= 4
    decide(client, rows[:6], "reject")
    again = get(client, "queue", order="learning", k=6)["rows"]
    assert [triple_of(row) for row in again] == [triple_of(row) for row in rows[6:]]


def test_a_batch_is_found_once_and_the_queue_ends(folder, monkeypatch):
    batches = []
    find = review.Queue._find
    monkeypatch.setattr(review, "BATCH", 10)
    monkeypatch.setattr(review, "MOST", 20)
    monkeypatch.setattr(review.Queue, "_find", lambda *a: batches.append(a[2]) or find(*a))
    app = make_app(bilink.load(folder), hosts=LOOPBACK, review=True)
    with TestClient(app, HOME) as client:
        pages = [get(client, "queue", k=4, offset=offset) for offset in range(0, 24, 4)]
    assert [len(page["rows"]) for page in pages] == [4, 4, 4, 4, 4, 0]
    assert [page["more"] for page in pages] == [True, True, True, True, False, False]
    assert batches == [0, 1]
    triples = [tuple(triple_of(row).values()) for page in pages for row in page["rows"]]
    assert len(set(triples)) == 20


def test_facts_in_doubt_are_a_queue_of_their_own(client, folder, monkeypatch):
    def doubt(tail, probability):
        names = {"head": "Austria", "relation": "borders", "tail": tail}
        labels = {f"{key}_label": value for key, value in names.items()}
        meant = {"name": "Italy", "label": "Italy", "probability": 0.9}
        return {**names, **labels, "probability": probability, "score": 1.0, "suggestion": meant}

    doubts = [doubt("Germany", 0.01), doubt("Hungary", 0.4), doubt("Slovenia", 0.2)]
    monkeypatch.setattr(review, "doubts_of", lambda run: doubts)
    rows = get(client, "queue", kind="doubts")["rows"]
    assert [row["tail"] for row in rows] == ["Germany", "Hungary", "Slovenia"]
    assert rows[0]["known"]
    assert rows[0]["why_asked"] == "Perhaps Italy was meant."
    rows = get(client, "queue", kind="doubts", order="learning")["rows"]
    assert [row["tail"] for row in rows] == ["Hungary", "Slovenia", "Germany"]
    assert get(client, "queue", kind="doubts", relation="has capital")["rows"] == []


# -- the update ------------------------------------------------------------------------------------


def ended(client):
    for _ in range(600):
        state = get(client, "update")
        if state["state"] != "running":
            return state
        time.sleep(0.1)
    raise AssertionError("the update did not end")


def test_an_update_knows_what_was_decided(client, folder):
    assert get(client, "update")["state"] == "idle"
    rows = get(client, "queue", k=3)["rows"]
    decide(client, rows[:1], "accept")
    decide(client, rows[1:], "reject")
    assert post(client, "update", {"epochs": 1})["state"] == "running"
    state = ended(client)
    assert (state["state"], state["error"]) == ("done", None)
    assert state["changes"]["counts"] == {"accepted": 1, "rejected": 2, "new_entities": 0}
    assert set(state["changes"]) == {"facts", "answers", "rules", "counts", "metrics"}
    updated = bilink.load(folder / "updates" / "1")
    triples = [tuple(triple_of(row).values()) for row in rows]
    known, *rejected = updated.probability(triples)
    assert known is None
    assert max(rejected) < 1e-6
    assert len(updated.history) == 5
    post(client, "update", {})
    assert ended(client)["state"] == "done"
    assert (folder / "updates" / "2" / "config.toml").exists()
    with pytest.raises(RunError, match="work of people"):
        bilink.train("atlas", "distmult", 4, epochs=1, out=folder, force=True)


def test_a_second_update_has_to_wait_and_a_failure_is_told(client, folder, monkeypatch):
    decide(client, get(client, "queue", k=1)["rows"], "accept")
    go_on = threading.Event()

    def slow(*args):
        go_on.wait(30)
        raise RuntimeError("a secret of the machine")

    monkeypatch.setattr(updating, "compare_runs", slow)
    post(client, "update", {})
    found = client.post("/api/v1/update", json={})
    assert (found.status_code, found.json()["code"]) == (409, "busy")
    go_on.set()
    state = ended(client)
    assert (state["state"], state["error"]) == ("failed", updating.INSIDE)
    monkeypatch.setattr(updating, "compare_runs", lambda *args: Changes([], [], [], None))
    shutil.rmtree(folder / "updates")
    (folder / "updates").symlink_to(folder.parent)
    post(client, "update", {})
    state = ended(client)
    assert state["state"] == "failed"
    assert "link" in state["error"]
    assert sorted(os.listdir(folder.parent)) == ["run"]


def test_an_updated_run_is_handed_on_and_asked_from_then_on(folder):
    run, taken = bilink.load(folder), []
    found = review.Review(review.Explorer(run), True, lambda new: taken.append(new) or "7")
    fact = run.new_facts(1)[0]
    run.decisions.accept(fact.head, fact.relation, fact.tail)
    found.updater.start()
    while found.updater.state()["state"] == "running":
        time.sleep(0.1)
    assert found.updater.state()["run"] == "7"
    assert [new.path for new in taken] == [folder / "updates" / "1"]
    assert found._queue._run is taken[0]


def test_the_small_run_of_other_tests_is_served_as_before():
    with TestClient(make_app(SmallRun(hostile_run().graph), hosts=LOOPBACK), HOME) as client:
        assert client.get("/api/info").json()["review"] is False
