"""Decisions are kept: by several processes at once, through crashes, whatever names are called."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import bilink
from bilink.cli import app
from bilink.data.graph import SPLITS, Graph
from bilink.data.index import known_answers
from bilink.data.vocabulary import Vocabulary
from bilink.errors import ConfigError, DataError, RunError
from bilink.runs.changes import compare_runs
from bilink.runs.decisions import DecisionLog, Decisions, Wish
from bilink.training.margin import rejected_answers
from conftest import random_graph

HOSTILE = (
    "=1+1",
    "@SUM(A1)",
    "＝cmd",
    "'quoted",
    '"double',
    "tab\there",
    "line\nend\r",
    "back\\slash\\n",
    "\u202eright to left\u2066",
    "\x1b[31mred\x00",
    "\U000e0001tag",
    "ordinary",
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("trained") / "run"
    bilink.train("atlas", "distmult", 16, epochs=6, threads=1, out=out)
    return out


@pytest.fixture
def folder(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


@pytest.fixture
def run(folder):
    return bilink.load(folder)


def hostile_graph():
    plain = random_graph(n_entities=12, n_relations=3)
    entities = Vocabulary("entity", HOSTILE)
    relations = Vocabulary("relation", ("=r", "r\t1", "r2"))
    return Graph("hostile", entities, relations, plain.train, plain.valid, plain.test)


class Judged:
    """A run as decisions need it."""

    def __init__(self, graph, path):
        self.graph, self.path, self.digest = graph, path, None
        self.known = known_answers(graph, SPLITS)

    def chances(self, triples):
        return [0.25] * len(triples)


@pytest.fixture
def decisions(tmp_path):
    return Decisions(Judged(hostile_graph(), tmp_path))


def lines_of(folder):
    return (folder / "decisions.tsv").read_text(encoding="utf-8").split("\n")


# -- the file --------------------------------------------------------------------------------------


def test_any_name_comes_back_as_it_was_and_is_text_for_a_spreadsheet(decisions, tmp_path):
    wanted = [(head, "r\t1", tail) for head, tail in zip(HOSTILE, HOSTILE[::-1], strict=True)]
    for triple in wanted:
        decisions.reject(*triple, reason="=cmd|'/c calc'!A1\n\tfor fun")
    again = Decisions(Judged(hostile_graph(), tmp_path))
    assert [each.triple for each in again] == wanted
    assert {each.reason for each in again} == {"=cmd|'/c calc'!A1 for fun"}
    assert {each.probability for each in again} <= {0.25}
    _, columns, *rows = lines_of(tmp_path)[:-1]
    assert len(rows) == len(wanted)
    for row in rows:
        assert row.isprintable() or set(row) - {"\t"} == {c for c in row if c.isprintable()}
        cells = row.split("\t")
        assert len(cells) == len(columns.split("\t"))
        assert not [cell for cell in cells if cell.startswith(tuple('=+-@＝"')) and cell != "-"]


def test_the_last_decision_holds_and_is_taken_back_step_by_step(decisions, tmp_path):
    fact, other = ("ordinary", "r2", "=1+1"), ("'quoted", "r2", "=1+1")
    decisions.accept(*fact, reason="sure")
    decisions.unsure(*other)
    decisions.reject(*fact)
    decisions.reject(*fact)  # nothing new
    assert decisions.counts() == {"accept": 0, "reject": 1, "unsure": 1}
    assert len(lines_of(tmp_path)) == 2 + 3 + 1
    triple, now = decisions.undo()
    assert (triple, now.decision, now.reason) == (fact, "accept", "sure")
    triple, now = decisions.undo()
    assert (triple, now) == (other, None)
    decisions.take_back(*fact)
    assert decisions.of([fact, other]) == [None, None]
    assert decisions.undo()[1].decision == "accept"  # even that can be taken back
    assert decisions.undo() == (fact, None)
    with pytest.raises(ConfigError, match="no decision to take back"):
        decisions.undo()
    assert len(lines_of(tmp_path)) == 2 + 4 + 4 + 1  # nothing was rewritten
    assert len(Decisions(Judged(hostile_graph(), tmp_path))) == 0


@pytest.mark.parametrize("cut", range(1, 66, 8))
def test_a_line_that_was_cut_short_is_passed_over(decisions, tmp_path, cut):
    decisions.accept("ordinary", "r2", "=1+1")
    decisions.accept("'quoted", "r2", "=1+1")
    path = tmp_path / "decisions.tsv"
    path.write_bytes(path.read_bytes()[:-cut])
    again = Decisions(Judged(hostile_graph(), tmp_path))
    assert [each.head for each in again] == ["ordinary"]
    again.reject("@SUM(A1)", "r2", "=1+1")
    again.undo()
    again.reject("@SUM(A1)", "r2", "=1+1")
    for each in (again, decisions, Decisions(Judged(hostile_graph(), tmp_path))):
        heads = [entry.head for entry in each]
        assert heads in (["ordinary", "@SUM(A1)"], ["ordinary", "'quoted", "@SUM(A1)"])
        assert "'quoted" not in heads or cut == 1  # where only the line's end was missing


@pytest.mark.parametrize("kept", [1, 20, 44, 60, 110])
def test_a_head_that_was_cut_short_is_written_again(decisions, tmp_path, kept):
    decisions.accept("ordinary", "r2", "=1+1")
    path = tmp_path / "decisions.tsv"
    head = b"\n".join(path.read_bytes().split(b"\n")[:2]) + b"\n"
    path.write_bytes(head[:kept])
    again = Decisions(Judged(hostile_graph(), tmp_path))
    assert len(again) == 0
    again.accept("ordinary", "r2", "=1+1")
    assert path.read_bytes().startswith(head)
    assert len(Decisions(Judged(hostile_graph(), tmp_path))) == 1


@pytest.mark.parametrize("content", ["hello", "hello\nworld\n", "\n\n", "# bilink decisions x\n\n"])
def test_a_file_of_anything_else_is_not_touched(decisions, tmp_path, content):
    path = tmp_path / "decisions.tsv"
    path.write_text(content)
    for act in (decisions.counts, lambda: decisions.accept("ordinary", "r2", "=1+1")):
        with pytest.raises(RunError, match="no file of decisions"):
            act()
    assert path.read_text() == content


def test_decisions_about_another_graph_are_refused(decisions, tmp_path):
    decisions.accept("ordinary", "r2", "=1+1")
    other = DecisionLog(tmp_path / "decisions.tsv", "0123456789abcdef")
    with pytest.raises(RunError, match="another graph"):
        other.refresh()
    path = tmp_path / "decisions.tsv"
    path.write_text(path.read_text().replace("decisions 1,", "decisions 2,", 1))
    with pytest.raises(RunError, match="newer bilink"):
        Decisions(Judged(hostile_graph(), tmp_path)).counts()


def test_lines_that_another_program_ended_its_way_are_read(decisions, tmp_path):
    decisions.accept("ordinary", "r2", "=1+1")
    path = tmp_path / "decisions.tsv"
    text = path.read_text()
    first = text.split("\n")[0]
    path.write_bytes(text.replace(first, first + "\t\t").replace("\n", "\r\n").encode())
    assert len(Decisions(Judged(hostile_graph(), tmp_path))) == 1


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="there are no links here")
def test_links_are_not_followed(decisions, tmp_path):
    target = tmp_path / "elsewhere"
    target.write_text("mine")
    (tmp_path / "decisions.tsv").symlink_to(target)
    with pytest.raises(RunError, match="link"):
        decisions.counts()
    with pytest.raises(RunError, match="link"):
        decisions.accept("ordinary", "r2", "=1+1")
    (tmp_path / "decisions.tsv").unlink()
    (tmp_path / "decisions.tsv").symlink_to(tmp_path / "nowhere")
    with pytest.raises(RunError, match="link"):
        decisions.accept("ordinary", "r2", "=1+1")
    assert target.read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


WRITER = """
import sys
from pathlib import Path
from bilink.runs.decisions import Decision, DecisionLog
log = DecisionLog(Path(sys.argv[1]), "abc")
for i in range(int(sys.argv[3])):
    log.add([Decision(0, f"{sys.argv[2]} {i}", "r", "t", "accept", reason="x" * 50)])
    print(i, flush=True)
"""


def writer(path, name, count):
    command = [sys.executable, "-c", WRITER, str(path), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_two_processes_at_once_lose_nothing(tmp_path):
    path = tmp_path / "decisions.tsv"
    both = [writer(path, name, 100) for name in ("one", "two")]
    for process in both:
        process.communicate(timeout=100)
        assert process.returncode == 0
    log = DecisionLog(path, "abc")
    log.refresh()
    heads = {each.head for each in log.holding()}
    assert heads == {f"{name} {i}" for name in ("one", "two") for i in range(100)}
    assert len(lines_of(tmp_path)) == 2 + 200 + 1


def test_what_was_answered_before_a_kill_is_there(tmp_path):
    path = tmp_path / "decisions.tsv"
    answered = 0
    for name in ("one", "two"):
        process = writer(path, name, 100_000)
        for _ in range(40):
            process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        told = process.communicate()[0].split()
        answered = int(told[-1]) if told else 39
        log = DecisionLog(path, "abc")
        log.refresh()
        heads = {each.head for each in log.holding()}
        assert {f"{name} {i}" for i in range(answered + 1)} <= heads
    log.add([])  # the dead hold no lock


# -- of a run --------------------------------------------------------------------------------------


def new_facts(run, k):
    return [(a.head, a.relation, a.tail) for a in run.new_facts(k)]


def test_an_old_run_has_no_decisions_and_reading_makes_no_file(run, folder):
    before = sorted(os.listdir(folder))
    assert len(run.decisions) == 0
    assert run.decisions.counts() == {"accept": 0, "reject": 0, "unsure": 0}
    run.new_facts(3)
    assert sorted(os.listdir(folder)) == before


def test_names_are_checked_and_what_is_known_is_kept_with_a_decision(run):
    fact, *_ = new_facts(run, 1)
    entry = run.decisions.accept(*fact)
    assert entry.probability == pytest.approx(run.probability([fact])[0])
    assert entry.kind == "new"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry.time)
    h, r, t = run.graph.train[0].tolist()
    names = run.graph.entities.names
    assert run.decisions.reject(names[h], run.graph.relations.names[r], names[t]).kind == "known"
    with pytest.raises(DataError, match="did you mean 'Austria'"):
        run.decisions.accept("Austira", "borders", "Italy")
    with pytest.raises(ConfigError, match="a decision is accept, reject, unsure"):
        run.decisions.decide([Wish("Austria", "borders", "Italy", "perhaps")])
    assert len(run.decisions) == 2
    assert "1 accept, 1 reject" in repr(run.decisions)


def test_decisions_outlive_what_is_done_to_the_run(run, folder, tmp_path):
    run.decisions.accept(*new_facts(run, 1)[0])
    bilink.resume(folder, options={"epochs": 7})
    again = bilink.load(folder)
    again.calibrate()
    assert len(again.decisions) == 1
    text = (folder / "decisions.tsv").read_text()
    with pytest.raises(RunError, match="work of people"):
        bilink.train("atlas", "distmult", 4, epochs=1, threads=1, out=folder, force=True)
    with pytest.raises(RunError, match="choose another"):
        run.update(rejected=new_facts(run, 1), out=folder, force=True)
    assert (folder / "decisions.tsv").read_text() == text
    assert bilink.load(folder).model.dim == 16


@pytest.mark.parametrize("ending", ["tsv", "csv", "json", "nt"])
def test_accepted_facts_go_into_files_and_come_back(run, tmp_path, ending):
    facts = new_facts(run, 6)
    for fact in facts[:4]:
        run.decisions.accept(*fact)
    run.decisions.reject(*facts[4])
    path = tmp_path / f"out.{ending}"
    if ending == "nt":
        pytest.importorskip("pyoxigraph")
        with pytest.raises(ConfigError, match="only accepted ones"):
            run.decisions.export(path, "reject")
    assert run.decisions.export(path) == 4
    if ending == "json":
        assert [d["head"] for d in json.loads(path.read_text())["decisions"]] == [
            fact[0] for fact in facts[:4]
        ]
        return
    for fact in facts[:4]:
        run.decisions.take_back(*fact)
    if ending == "nt":  # statements about probabilities are set aside
        with pytest.warns(bilink.errors.DataWarning):
            found = run.decisions.import_(path)
    else:
        found = run.decisions.import_(path)
    assert (found.added, found.known, found.unknown) == (4, 0, [])
    assert set(run.decisions.triples("accept")) == set(facts[:4])
    assert run.decisions.export(tmp_path / "no.tsv", "reject") == 1
    run.decisions.take_back(*facts[4])
    run.decisions.import_(tmp_path / "no.tsv")
    assert run.decisions.triples("reject") == [facts[4]]


def test_rows_of_a_file_are_accounted_for(run):
    (a, b, c), known = new_facts(run, 3), ("Austria", "borders", "Germany")
    rows = [(*a, "1"), (*b, "reject"), (*c, ""), (*known, "accept"), ("X", "borders", "Italy", "")]
    text = "\n".join("\t".join(row) for row in rows) + "\r\n\n"
    found = run.decisions.import_text(text, "unsure")
    assert (found.added, found.known) == (3, 1)
    assert "unknown entity 'X'" in found.unknown[0]
    assert run.decisions.of([a, b, c]) == ["accept", "reject", "unsure"]
    for wrong in ("a\tb\n", "a\t\tb\n", "a\tb\tc\tperhaps\n"):
        with pytest.raises(DataError, match="line 1"):
            run.decisions.import_text(wrong)


# -- the closed loop -------------------------------------------------------------------------------


def test_after_an_update_the_accepted_is_known_and_the_rejected_is_gone(run, tmp_path):
    facts = new_facts(run, 6)
    h, r, t = run.graph.train[0].tolist()
    names, relations = run.graph.entities.names, run.graph.relations.names
    doubtful = (names[h], relations[r], names[t])
    for fact in (*facts[:3], doubtful):
        run.decisions.reject(*fact)
    run.decisions.accept(*facts[3])
    found = run.update(decisions=True, out=tmp_path / "updated")
    assert (found.facts, found.rejected, found.removed) == (1, 4, 1)
    for after in (found.run, bilink.load(tmp_path / "updated")):
        gone = {*facts[:3], doubtful}
        assert max(after.probability(gone)) < 1e-6
        assert after.explain(*doubtful).probability < 1e-6
        for head, relation, tail in gone:
            for question in (
                {"head": head, "relation": relation},
                {"relation": relation, "tail": tail},
                {"head": head, "tail": tail},
            ):
                answers = after.query(**question, k=30)
                assert not gone & {(a.head, a.relation, a.tail) for a in answers}
        head, relation, tail = facts[3]
        answers = after.query(head=head, relation=relation, k=50)
        assert [a.known for a in answers if a.tail == tail] == [True]
        ids = [(names.index(a), relations.index(b), names.index(c)) for a, b, c in (doubtful,)]
        assert not after.known.holds(np.array(ids))[0]
    assert not {*gone, facts[3]} & set(new_facts(found.run, 60))
    again = found.run.update([doubtful]).run  # a person may change their mind
    assert again.known.holds(np.array(ids))[0]
    assert not again.rejected.holds(np.array(ids))[0]
    assert again.rejected.count == 3


def test_what_is_no_update_gets_a_sentence(run):
    fact = new_facts(run, 1)[0]
    with pytest.raises(DataError, match="no fact was accepted or rejected"):
        run.update(decisions=True)
    with pytest.raises(DataError, match="given as true and as rejected"):
        run.update([fact], rejected=[fact])
    with pytest.raises(DataError, match="unknown entity"):
        run.update(rejected=[("Nowhere at all", "borders", "Austria")])
    once = run.update(rejected=[fact]).run
    with pytest.raises(DataError, match="nothing is new"):
        once.update(rejected=[fact])


@pytest.mark.parametrize("corrupt", ["random", "both"])
def test_margin_training_goes_on_with_what_was_rejected_among_the_negatives(corrupt):
    options = {"loss": "margin", "epochs": 20, "threads": 1, "validation_triples": 0}
    graph = random_graph(n_entities=60, size=150)
    before = bilink.train(graph, "distmult", 8, options={**options, "corrupt": corrupt})
    facts = new_facts(before, 6)
    after = before.update(rejected=facts[:5], epochs=20).run
    plain = before.update(rejected=facts[5:], epochs=20).run
    assert after.score(facts[:5]).mean() < plain.score(facts[:5]).mean()


def test_rejected_answers_are_found_by_their_query():
    plain = random_graph(n_entities=12, n_relations=3)
    wrong = np.array([[1, 2, 3], [1, 2, 5], [4, 0, 3]])
    graph = Graph(
        "wrong", plain.entities, plain.relations, *map(plain.split, SPLITS), {"train": wrong}
    )
    keys, starts, answers = rejected_answers(graph)
    found = {
        (int(key) // 6, int(key) // 2 % 3, int(key) % 2): answers[i:j].tolist()
        for key, i, j in zip(keys, starts[:-1], starts[1:], strict=True)
    }
    tails = {(1, 2, 0): [3, 5], (4, 0, 0): [3]}
    assert found == {**tails, (3, 2, 1): [1], (5, 2, 1): [1], (3, 0, 1): [4]}


def test_without_probabilities_the_rejected_is_no_answer_either(tmp_path):
    run = bilink.train(random_graph(size=150), "distmult", 4, epochs=2, threads=1)
    assert run.calibration is None
    fact = new_facts(run, 1)[0]
    after = run.update(rejected=[fact]).run
    assert fact not in new_facts(after, 500)
    answers = after.query(head=fact[0], relation=fact[1], any_entity=True, k=50)
    assert fact[2] not in [answer.tail for answer in answers]


def test_what_changed_is_told(run):
    facts = new_facts(run, 4)
    after = run.update(facts[:1], rejected=facts[1:]).run
    changes = compare_runs(run, after, facts)
    assert not {(f.head, f.relation, f.tail) for f in changes.facts} & set(facts)
    moved = [abs(fact.after - fact.before) for fact in changes.facts]
    assert moved == sorted(moved, reverse=True)
    for fact in changes.facts[:5]:
        triple = [(fact.head, fact.relation, fact.tail)]
        assert run.probability(triple)[0] == pytest.approx(fact.before)
        assert after.probability(triple)[0] == pytest.approx(fact.after)
    assert set(changes.metrics) == {"before", "after"}
    json.dumps(changes.to_dict(), allow_nan=False)
    same = compare_runs(run, run, facts)
    assert (same.facts, same.answers, same.rules) == ([], [], [])


def test_rules_that_moved_are_told():
    run = bilink.train(random_graph(size=150), "paths")
    facts = [(f"e{i}", f"r{r}", f"new {i % 3}") for i in range(9) for r in (0, 1)]
    rules = compare_runs(run, run.update([*facts, ("e0", "r9", "e1")]).run).rules
    assert any("r0" in rule.sentence and "r1" in rule.sentence for rule in rules)
    gaps = [abs((rule.after or 0) - (rule.before or 0)) for rule in rules]
    assert gaps == sorted(gaps, reverse=True)


def test_the_command_line_updates_with_decisions(run, folder, tmp_path):
    facts = new_facts(run, 2)
    run.decisions.accept(*facts[0])
    run.decisions.reject(*facts[1])

    def update(*words):
        return CliRunner().invoke(app, ["update", str(folder), *words])

    done = update("--decisions", "--out", str(tmp_path / "more"))
    assert done.exit_code == 0, done.output
    assert "1 new fact" in done.output
    assert "1 triple rejected" in done.output
    assert "MRR on validation facts" in done.output
    done = update("--out", str(tmp_path / "other"))
    assert done.exit_code == 2
    assert "--decisions" in done.output
    assert not (tmp_path / "other").exists()


def test_the_command_line_shows_writes_and_reads_decisions(run, folder, tmp_path):
    facts = new_facts(run, 2)

    def review(*words):
        done = CliRunner().invoke(app, ["review", str(folder), *map(str, words)])
        assert done.exit_code == 0, done.output
        return done.output

    rows = [(*facts[0], "1"), (*facts[1], "-1"), ("X", "borders", "Italy", "1")]
    path = tmp_path / "checked.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    shown = review("--import", path)
    assert "2 decisions added" in shown
    assert "unknown entity 'X'" in shown
    assert json.loads(review("--json"))["counts"] == {"accept": 1, "reject": 1, "unsure": 0}
    assert "1 fact in" in review("--export", tmp_path / "out.csv")
    assert "bilink update" in review()
    assert facts[0][0] in (tmp_path / "out.csv").read_text(encoding="utf-8")
