"""The command line as other programs use it: output, errors, exit codes."""

import json
import re
import shlex
import subprocess
import sys

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from bilink.cli import app
from bilink.data.files import read_triples
from bilink.errors import DataWarning

FAST = ["--set", "epochs=4", "--set", "threads=1"]


def bilink(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "bilink", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=200,
        **options,
    )


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "run"
    done = bilink("train", "atlas", "--model", "distmult", "--dim", 8, "--out", folder, *FAST)
    assert done.returncode == 0, done.stderr
    assert "bilink evaluate" in done.stdout
    return folder


def test_evaluate_prints_the_agreed_json_alone(run):
    done = bilink("evaluate", run, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["filter"] == ["train", "valid", "test"]
    assert found["ties"] == "realistic"
    for part in (found["both"], found["head"], found["tail"], found["categories"]["N-N"]["head"]):
        assert set(part) == {"mrr", "mr", "hits@1", "hits@3", "hits@10", "amri"}
    assert {"split", "queries", "seconds"} <= set(found)
    assert found in json.loads((run / "metrics.json").read_text()).values()


def test_evaluate_prints_a_table_a_csv_and_a_comparison(run, tmp_path):
    done = bilink("evaluate", run, "--against", run, "--csv", tmp_path / "relations.csv")
    assert done.returncode == 0, done.stderr
    assert "N-N, predict head" in done.stdout
    assert "p = 1.0000" in done.stdout
    lines = (tmp_path / "relations.csv").read_text().splitlines()
    assert lines[0].startswith("relation,category,triples,mrr")
    assert len(lines) == 15


def test_classify_prints_the_agreed_json_alone(run):
    done = bilink("classify", run, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    rates = {"accuracy", "precision", "recall", "f1", "auc", "average_precision"}
    assert all(0 <= found[name] <= 1 for name in rates)
    assert rates | {"relation", "threshold"} < set(found["relations"][0])
    assert (found["split"], found["seed"]) == ("test", 0)
    assert (found["negatives"], found["thresholds"]["chosen_on"]) == (
        "sampled by position",
        "valid",
    )
    found.pop("relations")
    assert found in json.loads((run / "metrics.json").read_text()).values()


def test_classify_prints_a_table_and_a_csv(run, tmp_path):
    done = bilink("classify", run, "--split", "valid", "--csv", tmp_path / "relations.csv")
    assert done.returncode == 0, done.stderr
    assert "mean over relations" in done.stdout
    assert "which flatters" in done.stdout
    lines = (tmp_path / "relations.csv").read_text().splitlines()
    assert lines[0].startswith("relation,positives,negatives,threshold,threshold_examples,accuracy")
    assert len(lines) == 15


def test_query_prints_the_agreed_json(run):
    done = bilink("query", run, "--head", "Austria", "--relation", "borders", "-k", 3, "--json")
    answers = json.loads(done.stdout)["answers"]
    assert len(answers) == 3
    keys = {"head", "relation", "tail", "label", "score", "probability", "rank", "known"}
    assert set(answers[0]) == keys
    assert "rank" in bilink("query", run, "--tail", "Euro", "--relation", "uses currency").stdout


def test_query_asks_for_pairs_relations_and_facts_and_whole_files(run, tmp_path):
    def ask(*arguments):
        done = bilink("query", run, *arguments, "-k", 3, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["answers"]

    assert {a["relation"] for a in ask("--relation", "borders", "--new")} == {"borders"}
    assert len({a["relation"] for a in ask("--head", "Austria", "--tail", "Italy")}) == 3
    assert not any(a["known"] for a in ask("--new"))
    (tmp_path / "questions.tsv").write_text("Austria\tborders\t?\n?\tuses currency\tEuro\n")
    (tmp_path / "names.txt").write_text("Italy\nChile\n")
    file, out = tmp_path / "questions.tsv", tmp_path / "answers.csv"
    answers = ask("--questions", file, "--only", tmp_path / "names.txt", "--out", out)
    assert [a["question"] for a in answers] == ["(Austria, borders, ?)"] * 2 + [
        "(?, uses currency, Euro)"
    ] * 2
    assert out.read_text().splitlines()[0].startswith("question,head,relation,tail,label,score")


def test_query_writes_what_it_prints_as_json_and_as_triples(run, tmp_path):
    pytest.importorskip("pyoxigraph")
    question = ("query", run, "--head", "Austria", "--relation", "borders", "--new", "-k", 5)
    done = bilink(*question, "--json", "--out", tmp_path / "answers.json")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "answers.json").read_text() == done.stdout
    answers = json.loads(done.stdout)["answers"]
    done = bilink(*question, "--out", tmp_path / "answers.ttl")
    assert done.returncode == 0, done.stderr
    with pytest.warns(DataWarning, match="left out 5 statements"):
        found = read_triples(tmp_path / "answers.ttl").frame.rows()
    assert found == [(a["head"], a["relation"], a["tail"]) for a in answers]
    done = bilink(*question, "--tail", "Italy", "--out", tmp_path / "one.csv")
    assert done.returncode == 2
    assert "for one fact there is --json" in done.stderr


def test_query_says_what_it_left_out_and_brings_it_back(tmp_path):
    facts = "".join(f"country {i}\thas\tcity {i % 7}\n" for i in range(15))
    (tmp_path / "train.tsv").write_text(facts)
    run = tmp_path / "run"
    assert bilink("train", tmp_path, "--out", run, *FAST).returncode == 0
    question = ("query", run, "--head", "city 1", "--relation", "has")
    shown = bilink(*question).stdout
    why = "left out: 15 entities that were never the tail of 'has'; --any-entity brings them back"
    assert why in shown
    assert "country" not in shown
    found = json.loads(bilink(*question, "--json").stdout)
    reason = "entities that were never the tail of 'has'"
    assert found["left_out"] == [{"count": 15, "reason": reason}]
    assert len(found["answers"]) == 6
    shown = bilink(*question, "--any-entity", "-k", 30).stdout
    assert "left out" not in shown
    assert "country 14" in shown


def test_data_commands(tmp_path):
    assert "atlas" in bilink("data", "ls").stdout
    assert {e["name"] for e in json.loads(bilink("data", "ls", "--json").stdout)} >= {"wn18"}
    described = json.loads(bilink("data", "describe", "atlas", "--json").stdout)
    assert described["relations"] == 14
    assert "borders" in bilink("data", "describe", "atlas").stdout
    triples = "".join(f"a{i}\tlikes\ta{(i * 7 + 1) % 20}\n" for i in range(20)) * 1
    (tmp_path / "mine.tsv").write_text(triples + triples.replace("likes", "sees"))
    out = tmp_path / "split"
    done = bilink("data", "split", tmp_path / "mine.tsv", "--out", out)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in out.iterdir()) == ["test.tsv", "train.tsv", "valid.tsv"]
    again = bilink("data", "split", tmp_path / "mine.tsv", "--out", out)
    assert again.returncode == 1
    assert "not empty" in again.stderr


def test_a_config_keeps_how_the_graph_was_read(tmp_path):
    rows = "".join(f"a{i}\ta{(i * 7 + 1) % 20}\tlikes\n" for i in range(20))
    (tmp_path / "mine.tsv").write_text(rows)
    done = bilink(
        "train", tmp_path / "mine.tsv", "--columns", "htr", "--out", tmp_path / "one", *FAST
    )
    assert done.returncode == 0, done.stderr
    config = tmp_path / "one" / "config.toml"
    again = bilink("train", "--config", config, "--out", tmp_path / "two")
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "two" / "config.toml").read_text() == config.read_text()
    (tmp_path / "mine.tsv").write_text(rows.replace("a3", "b3"))
    changed = bilink("train", "--config", config, "--out", tmp_path / "three")
    assert changed.returncode == 1
    assert "not the one of the config" in changed.stderr


def test_a_dry_run_estimates_and_writes_nothing(tmp_path):
    for model, told in (("complex", "parameters"), ("auto", "budget: 60 s")):
        done = bilink("train", "atlas", "--model", model, "--dry-run", "--out", tmp_path / "run")
        assert done.returncode == 0
        assert told in done.stderr
    assert not (tmp_path / "run").exists()


def test_without_a_model_the_best_of_a_budget_is_made(tmp_path):
    done = bilink("train", "atlas", "--budget", "0", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert "answers questions from now on" in done.stderr
    assert "the best on validation: paths" in done.stdout
    asked = bilink("query", tmp_path / "run", "--head", "Monaco", "--relation", "uses currency")
    assert "Euro" in asked.stdout


def test_resume_and_config_repeat_a_run(run, tmp_path):
    done = bilink("resume", run, "--set", "epochs=5", "--json")
    assert json.loads(done.stdout)["epoch"] == 5
    again = bilink("train", "--config", run / "config.toml", "--out", tmp_path / "again")
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (
        run / "model.safetensors"
    ).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "atlsa"], "did you mean atlas"),
        (["train", "no/such/file.tsv"], "no such file"),
        (["train"], "name the graph to train on"),
        (["train", "atlas", "--model", "trans"], "did you mean 'transe'"),
        (["train", "atlas", "--dim", "0"], "dim must be at least 1"),
        (["train", "atlas", "--set", "epoch=3"], "did you mean 'epochs'"),
        (["train", "atlas", "--set", "epochs"], "key=value"),
        (["train", "atlas", "--config", "nowhere.toml"], "nowhere.toml"),
        (["evaluate", "nowhere"], "no run at"),
        (["classify", "nowhere"], "no run at"),
        (["resume", "nowhere"], "no run at"),
        (["query", "nowhere", "--head", "x"], "no run at"),
        (["data", "describe", "nowhere"], "neither a file"),
        (["data", "get", "wn19"], "did you mean wn18"),
    ],
)
def test_mistakes_get_one_sentence_and_exit_code_1(arguments, message, tmp_path):
    done = bilink(*arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_mistakes_about_a_run_get_one_sentence(run):
    for arguments, message in (
        (["evaluate", run, "--split", "tset"], "unknown split 'tset'"),
        (["evaluate", run, "--filter", "trian"], "unknown split"),
        (["evaluate", run, "--ties", "random"], "tie rule"),
        (["evaluate", run, "--memory", "lots"], "256MB"),
        (["evaluate", run, "--memory", "1k"], "too small"),
        (["classify", run, "--seed", -1], "seed must be at least 0"),
        (["query", run, "--head", "Austria"], "give a relation"),
        (["query", run, "--head", "Austri", "--relation", "borders"], "'Austria'"),
        (["query", run, "--relation", "borders", "--only", "nowhere.txt"], "no file nowhere.txt"),
        (["train", "atlas", "--out", run], "--force"),
        (["evaluate", run, "--threads", -1], "threads must be at least 1"),
        (["data", "split", "atlas.tsv", "--out", run / "config.toml"], "is a file"),
        (["resume", run, "--set", "seed=3"], "seed cannot change"),
    ):
        done = bilink(*arguments)
        assert done.returncode == 1, arguments
        assert message in done.stderr
        assert "Traceback" not in done.stderr


def test_an_existing_file_is_not_overwritten(run, tmp_path):
    (tmp_path / "mine.csv").write_text("a,b")
    done = bilink("evaluate", run, "--csv", tmp_path / "mine.csv")
    assert done.returncode == 1
    assert "exists" in done.stderr
    assert (tmp_path / "mine.csv").read_text() == "a,b"
    for file, message in (
        (tmp_path / "mine.csv", "exists"),
        (tmp_path / "none" / "mine.csv", "there is no folder"),
        (tmp_path / "mine.xlsx", "must end in .tsv, .csv, .parquet, .json, .nt or .ttl"),
    ):
        done = bilink("query", "nowhere", "--relation", "borders", "--out", file)  # before it loads
        assert done.returncode == 1
        assert message in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "atlas", "--dim", "100000000000"],
        ["train", "atlas", "--set", "threads=99999999999"],
        ["train", "atlas", "--set", "negatives=9223372036854775807"],
        ["train", "atlas", "--set", "batch_size=99999999999999999999"],
        ["train", "atlas", "--set", "together=99999999999999999999"],
        ["train", "x" * 300],
        ["data", "split", "atlas.tsv", "--out", "y" * 300],
    ],
)
def test_sizes_beyond_all_bounds_get_a_sentence(arguments, tmp_path):
    done = bilink(*arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "error: " in done.stderr


@pytest.mark.parametrize("arguments", [["train", "--dim", "x"], ["trian"], ["evaluate"]])
def test_wrong_usage_is_exit_code_2(arguments):
    assert bilink(*arguments).returncode == 2


def test_names_are_shown_as_they_are_and_cannot_steer_the_terminal(tmp_path):
    names = ["[red]x[/red]", "\x1b[31mred", "\u202eright", "emoji 🦊", "q\"'`$(id)", "n" * 10_000]
    rows = [(a, "r[b]", b) for a in names for b in names if a != b]
    (tmp_path / "hostile.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    done = bilink("train", tmp_path / "hostile.tsv", "--dim", 2, "--out", tmp_path / "run", *FAST)
    assert done.returncode == 0, done.stderr
    shown = bilink("query", tmp_path / "run", "--head", "[red]x[/red]", "--relation", "r[b]")
    assert shown.returncode == 0, shown.stderr
    assert "[red]x[/red]" in shown.stdout
    assert "\x1b[31m" not in shown.stdout
    assert "\u202e" not in shown.stdout
    answers = json.loads(
        bilink("query", tmp_path / "run", "--head", names[0], "--relation", "r[b]", "--json").stdout
    )["answers"]
    assert {a["tail"] for a in answers} >= set(names[1:])


def test_the_demo_trains_asks_judges_and_ends_with_commands_that_can_be_typed(demo):
    printed, out = demo
    for model in ("rules", "RESCAL", "DistMult", "HolE", "ComplEx", "TransE", "together"):
        assert model in printed
    true = re.search(r"(\d+) of 20 are true; ([\d.]+) were promised", printed)
    assert int(true[1]) >= 10  # rules alone find that many
    assert re.search(r"\d+ of \d+ were planted", printed)
    assert "Why the first?" in printed
    typed = [line.split() for line in printed.splitlines() if line.startswith("  bilink ")]
    assert typed[-1] == ["bilink", "serve", str(out / "ensemble"), "--review", "--open"]
    assert all((words[1],) in COMMANDS for words in typed)
    again = bilink(*typed[0][1:3], "--head", "Peru", "--relation", "official language", "--json")
    assert len(json.loads(again.stdout)["answers"]) == 10
    assert json.loads((out / "ensemble" / "audit" / "doubts.json").read_text())


def commands(command, words=()):
    """A command and those below it, with their words, such as ("data", "ls")."""
    yield words, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*words, name))


COMMANDS = dict(commands(get_command(app)))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_shows_examples_one_by_one_and_defaults_in_one_notation(words):
    shown = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "120"})
    assert shown.exit_code == 0
    assert "<bool>" not in shown.output  # after a flag, which takes no value
    assert ".md" not in shown.output  # an installed program has no docs folder
    for param in COMMANDS[words].params:
        assert param.hidden or param.help
        assert "[" not in (param.help or "")  # a default is shown by Typer: [default: …]
    lines = [line for line in shown.output.splitlines() if "bilink " in line][1:]  # but for Usage
    if "For example" in shown.output:
        examples = [line for line in lines if line.strip().startswith("• bilink ")]
        assert examples
        assert all(line.count("bilink ") == 1 for line in examples)
        assert "`" not in shown.output


def test_former_names_of_options_are_accepted_and_not_shown():
    for words, former in (
        (["calibrate"], "--plot"),
        (["data", "describe"], "--most"),
        (["theory", "describe"], "--most"),
    ):
        shown = CliRunner().invoke(app, [*words, "--help"])
        assert former not in shown.output
    done = CliRunner().invoke(app, ["data", "describe", "atlas", "--most", "3"])
    assert done.exit_code == 0
    assert "… and 11 more (-k)" in done.output
    assert CliRunner().invoke(app, ["data", "describe", "atlas", "-k", "3"]).output == done.output


def test_the_examples_in_help_can_be_typed():
    typed = 0
    for words, command in COMMANDS.items():
        for example in re.findall(r"`(bilink [^`]+)`", command.help or ""):
            arguments = shlex.split(example)[1:]
            if words and tuple(arguments[: len(words)]) == words:  # else it is of another command
                command.make_context("", arguments[len(words) :])  # an unknown option raises
                typed += 1
    assert typed > 10
