"""Graphs from folders, files and memory."""

import gzip
import os
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from bilink.data import building
from bilink.data.building import build_graph
from bilink.data.files import TripleTable
from bilink.data.folders import split_of
from bilink.data.loading import graph_from_triples, load_graph, write_graph_files
from bilink.data.statistics import describe
from bilink.errors import DataError, DataWarning

TRAIN = [("b", "r", "a"), ("a", "s", "c"), ("c", "r", "d"), ("d", "s", "b")]
VALID = [("a", "r", "d")]
TEST = [("b", "s", "c"), ("c", "s", "a")]


def tsv(rows):
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


def make(folder, **files):
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content, encoding="utf-8")
    return folder


def plain(folder, extension="txt", prefix="", valid="valid"):
    parts = (("train", TRAIN), (valid, VALID), ("test", TEST))
    return make(folder, **{f"{prefix}{split}__{extension}": tsv(rows) for split, rows in parts})


def names_of(graph, split):
    entities, relations = graph.entities.names, graph.relations.names
    return [(entities[h], relations[r], entities[t]) for h, r, t in graph.split(split).tolist()]


def assert_is_the_graph(graph):
    assert [names_of(graph, split) for split in ("train", "valid", "test")] == [TRAIN, VALID, TEST]
    assert graph.entities.names == ("b", "a", "c", "d")  # in the order of first appearance
    assert graph.relations.names == ("r", "s")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"extension": "tsv"},
        {"valid": "dev"},
        {"valid": "validation"},
        {"prefix": "freebase_mtr100_mte100-"},
        {"prefix": "wordnet-mlj12-"},
    ],
)
def test_a_folder_of_splits_is_recognised(tmp_path, options):
    folder = plain(tmp_path / "g", **options)
    make(folder, **{"README__md": "x", "entities__dict": "0\ta\n", "train__log": "epoch 1"})
    graph = load_graph(folder)
    assert_is_the_graph(graph)
    assert graph.name == "g"
    assert graph.train.dtype == np.int32


def test_labels_of_entities_and_relations_are_read(tmp_path):
    folder = make(plain(tmp_path / "g"), relation_labels__tsv="r\tis near\n")
    (folder / "entity_labels.tsv.gz").write_bytes(gzip.compress("a\tÅse\nzz\tnobody\n".encode()))
    graph = load_graph(folder)
    assert dict(graph.entities.labels) == {"a": "Åse"}
    assert graph.relations.label(0) == "is near"
    make(folder, relation_labels__tsv="r is near\n")
    with pytest.raises(DataError, match=r"relation_labels.tsv:1: expected two columns"):
        load_graph(folder)


def test_two_files_for_one_split_are_an_error_that_names_both(tmp_path):
    folder = make(plain(tmp_path / "g"), train__tsv="a\tr\tb\n")
    with pytest.raises(DataError, match=r"both train.tsv and train.txt could be the train split"):
        load_graph(folder)


def test_file_names_of_splits():
    assert split_of("train.txt.gz") == split_of("TRAIN.tsv") == "train"
    assert split_of("dev") == "valid"
    assert split_of("train2id.txt") is split_of("train.json") is split_of("mytrain.txt") is None


def test_missing_splits_are_allowed_with_a_warning(tmp_path):
    folder = make(tmp_path / "g", train__txt=tsv(TRAIN))
    with pytest.warns(DataWarning) as caught:
        graph = load_graph(folder)
    said = [str(warning.message).partition(";")[0] for warning in caught]
    assert said == ["g: there is no valid split", "g: there is no test split"]
    assert caught[0].filename == __file__
    assert len(graph.valid) == len(graph.test) == 0
    with pytest.raises(DataError, match=r"there is no file train.txt"):
        load_graph(make(tmp_path / "empty"))


def test_a_libkge_folder_is_read_by_its_indexes(tmp_path):
    entity, relation = {"a": 0, "b": 1, "c": 2, "d": 3}, {"s": 0, "r": 1}
    files = {
        f"{split}__del": tsv((entity[h], relation[r], entity[t]) for h, r, t in rows)
        for split, rows in (("train", TRAIN), ("valid", VALID), ("test", TEST))
    }
    files |= {
        "train__txt": "ignored\n",
        "entity_ids__del": tsv((i, name) for name, i in entity.items()),
        "relation_ids__del": tsv((i, name) for name, i in relation.items()),
        "entity_strings__del": "0\tAnn\n3\tDan\n",
    }
    folder = make(tmp_path / "g", **files)
    graph = load_graph(folder)
    assert_is_the_graph(graph)
    assert dict(graph.entities.labels) == {"a": "Ann", "d": "Dan"}
    make(folder, valid__del="0\t0\t1\n0\t9\t1\n")
    with pytest.raises(DataError, match=r"valid.del:2: there is no relation with the index '9'"):
        load_graph(folder)
    make(folder, entity_ids__del="0\ta\n0\tb\n")
    with pytest.raises(DataError, match=r"entity_ids.del: the index '0' of 'b'"):
        load_graph(folder)


@pytest.mark.parametrize("gap", ["\t", " "])
def test_an_openke_folder_is_read_by_its_indexes(tmp_path, gap):
    entity, relation = {"a": 0, "b": 1, "c": 2, "d": 3}, {"s": 0, "r": 1}
    files = {
        f"{split}2id__txt": f"{len(rows)}\n"
        + "".join(f"{entity[h]}{gap}{entity[t]}{gap}{relation[r]} \n" for h, r, t in rows)
        for split, rows in (("train", TRAIN), ("valid", VALID), ("test", TEST))
    }
    files["entity2id__txt"] = "4\n" + "".join(f"{name}{gap}{i}\n" for name, i in entity.items())
    files["relation2id__txt"] = "2\n" + "".join(f"{name}{gap}{i}\n" for name, i in relation.items())
    folder = make(tmp_path / "g", **files)
    assert_is_the_graph(load_graph(folder))
    make(folder, test2id__txt="2\n0 1 0\n0 x 0\n")
    with pytest.raises(DataError, match=r"test2id.txt:3: there is no entity with the index 'x'"):
        load_graph(folder)
    make(folder, test2id__txt="7\n0 1 0\n")
    with pytest.warns(DataWarning, match="first line says '7', but 1 lines follow"):
        load_graph(folder)


def test_folders_of_indexes_that_lack_their_names_or_counts_are_refused(tmp_path):
    (tmp_path / "train.del").write_text("0\t0\t1\n")
    with pytest.raises(DataError, match=r"entity_ids\.del .* missing"):
        load_graph(tmp_path)
    (tmp_path / "train.del").unlink()
    (tmp_path / "train2id.txt").write_text("1\n0 1 0\n")
    (tmp_path / "relation2id.txt").write_text("1\nr\t0\n")
    (tmp_path / "entity2id.txt").write_text("a\t0\nb\t1\n")
    with pytest.raises(DataError, match=r"entity2id\.txt:1: the first line .* number"):
        load_graph(tmp_path)
    (tmp_path / "entity2id.txt").write_text("2\na\t0\nb\t1\n")
    (tmp_path / "train2id.txt").write_text("0 1 0\n")
    with pytest.raises(DataError, match=r"train2id\.txt:1: the first line .* number"):
        load_graph(tmp_path)


def test_an_index_or_a_count_of_thousands_of_digits_is_refused_like_any_other(tmp_path):
    long = "9" * 5000
    folder = make(
        tmp_path / "g",
        entity2id__txt=f"2\na\t0\nb\t{long}\n",
        relation2id__txt="1\nr\t0\n",
        train2id__txt="1\n0 1 0\n",
    )
    with pytest.raises(DataError, match=r"entity2id\.txt: the index '9{59}…' of 'b'"):
        load_graph(folder)
    make(folder, entity2id__txt="2\na\t0\nb\t1\n", train2id__txt=f"1\n0 {long} 0\n")
    with pytest.raises(
        DataError, match=r"train2id\.txt:2: there is no entity with the index '9{59}…'"
    ):
        load_graph(folder)
    make(folder, train2id__txt=f"{long}\n0 1 0\n")
    with pytest.warns(DataWarning, match=r"first line says '9{59}…', but 1 lines|no .* split"):
        load_graph(folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="neither a file nor a folder"):
        load_graph(tmp_path / "pipe")


def test_openke_names_may_contain_spaces(tmp_path):
    folder = make(
        tmp_path / "g",
        entity2id__txt="2\nNew York\t0\nLos Angeles\t1\n",
        relation2id__txt="1\nfar from\t0\n",
        train2id__txt="1\n0 1 0\n",
    )
    with pytest.warns(DataWarning, match="no (valid|test) split"):
        assert names_of(load_graph(folder), "train") == [("New York", "far from", "Los Angeles")]


def ring(n=60):
    return [(f"e{i}", f"r{j}", f"e{(i + j) % n}") for i in range(n) for j in (1, 2, 3)]


def test_a_single_file_is_split_the_same_way_each_time(tmp_path):
    path = make(tmp_path, ring__tsv=tsv(ring())) / "ring.tsv"
    graph = load_graph(path)
    assert (graph.name, len(graph.train), len(graph.valid), len(graph.test)) == (
        "ring",
        144,
        18,
        18,
    )
    assert not len(graph.unseen_entities)
    assert graph.fingerprint == load_graph(path).fingerprint != load_graph(path, seed=1).fingerprint
    dealt = [row for split in ("train", "valid", "test") for row in names_of(graph, split)]
    assert sorted(dealt) == sorted(ring())


def test_a_split_graph_written_to_files_is_the_same_graph_again(tmp_path):
    graph = graph_from_triples(ring(), entity_labels={"e1": "one\ttwo"}, name="g")
    write_graph_files(graph, tmp_path / "new" / "g")
    again = load_graph(tmp_path / "new" / "g")
    assert again.fingerprint == graph.fingerprint
    assert dict(again.entities.labels) == {"e1": "one two"}
    with pytest.raises(DataError, match="cannot be written to a TSV file"):
        write_graph_files(graph_from_triples([("a\tb", "r", "c")], fractions=(1, 0, 0)), tmp_path)


def test_triples_in_memory_come_as_tuples_arrays_or_frames():
    frame = pl.DataFrame(TRAIN, schema=["s", "p", "o"], orient="row")

    class Pandas(dict):  # what bilink uses of a pandas data frame
        columns = ("object", "subject", "predicate")

    fields = list(zip(*TRAIN, strict=True))
    pandas = Pandas(object=fields[2], subject=fields[0], predicate=fields[1])
    for train in (TRAIN, iter(TRAIN), np.array(TRAIN), frame, pandas):
        assert_is_the_graph(graph_from_triples(train, VALID, TEST))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("a", "r")], r"row 1: expected head, relation, tail: \('a', 'r'\)"),
        (["abc"], "row 1: expected head, relation, tail: 'abc'"),
        ([("a", "r", "b"), ("a", "r", 3)], "row 2: names must be strings, not 3"),
        ([("a", "r", "b"), ("", "r", "b")], "row 2: the head is missing or empty"),
        ([("a", "r", "\ud800")], "not valid Unicode"),
        ([], "there are no triples"),
        ([("a", "r", "a")], "only one entity"),
    ],
)
def test_triples_in_memory_are_checked(rows, message):
    with pytest.raises(DataError, match=message):
        graph_from_triples(rows)


def test_repeated_triples_are_dropped_and_counted():
    with pytest.warns(DataWarning, match="train: dropped 2 repeated triples"):
        assert_is_the_graph(graph_from_triples(TRAIN + TRAIN[:2], VALID, TEST))


def test_triples_in_two_splits_are_kept_and_counted():
    with pytest.warns(DataWarning, match=r"1 triple stands in more than one split .*describe"):
        graph = graph_from_triples(TRAIN, VALID, TEST + TRAIN[1:2])
    assert len(graph.test) == 3


def test_what_train_never_mentions_is_kept_and_counted():
    with pytest.warns(DataWarning) as caught:
        graph = graph_from_triples(TRAIN, VALID, [("new", "q", "a")])
    assert "1 entity only in valid or test" in str(caught[0].message)
    assert "1 relation only in valid or test" in str(caught[1].message)
    assert graph.entities.names[-1] == "new"


def test_swapped_columns_are_suspected():
    swapped = [(h, t, r) for h, r, t in ring()]
    with pytest.warns(DataWarning, match="pass --columns"):
        graph_from_triples(swapped, fractions=(1, 0, 0))
    fields = pl.DataFrame(swapped, schema=["a", "b", "c"], orient="row")
    assert len(graph_from_triples(fields, columns="htr").relations) == 3


def labelled(tmp_path):
    """A folder like those of WN11 and FB13: train has true triples only, dev and test say which."""
    folder = plain(tmp_path / "g", valid="dev")
    make(folder, dev__txt=tsv([(*VALID[0], 1), ("a", "r", "b", -1)]))
    return make(folder, test__txt=tsv([(*TEST[0], 1), ("d", "r", "new", -1), (*TEST[1], 1)]))


def test_false_triples_of_valid_and_test_are_kept_apart(tmp_path):
    with pytest.warns(DataWarning, match="1 entity only in valid or test"):
        graph = load_graph(labelled(tmp_path))
    assert [names_of(graph, split) for split in ("train", "valid", "test")] == [TRAIN, VALID, TEST]
    assert graph.entities.names == ("b", "a", "c", "d", "new")  # those of false triples come last
    assert {split: rows.tolist() for split, rows in graph.negatives.items()} == {
        "valid": [[1, 0, 0]],
        "test": [[3, 0, 4]],
    }
    assert describe(graph).negatives == {"valid": 1, "test": 1}


def test_false_triples_of_train_are_set_aside(tmp_path):
    train = tsv([(*row, 1) for row in TRAIN] + [("a", "r", "b", -1)])
    folder = make(plain(tmp_path / "g"), train__txt=train)
    with pytest.warns(DataWarning, match="set aside 1 triple labelled -1"):
        graph = load_graph(folder)
    assert_is_the_graph(graph)
    assert graph.negatives == {}
    (tmp_path / "test.txt").write_text(
        tsv([(*row, 1) for row in ring()] + [("e1", "r1", "e3", -1)])
    )
    with pytest.warns(DataWarning, match="test: set aside 1 triple labelled -1"):
        assert load_graph(tmp_path / "test.txt").negatives == {}


def test_a_triple_that_is_called_true_and_false_is_kept_and_counted(tmp_path):
    folder = make(plain(tmp_path / "g"), test__txt=tsv([(*TEST[0], 1), (*TRAIN[0], -1)]))
    with pytest.warns(DataWarning, match="1 triple is labelled -1 but true in some split"):
        assert len(load_graph(folder).negatives["test"]) == 1


@pytest.mark.parametrize("label", ["2", "0", "", "true"])
def test_a_label_that_is_neither_1_nor_minus_1_is_refused_with_its_line(tmp_path, label):
    rows = [(*TEST[0], 1), ("a", "r", "b", -1), (*TEST[1], label)]
    folder = make(plain(tmp_path / "g"), test__txt=tsv(rows))
    with pytest.raises(DataError, match=rf"test.txt:3: .* must be 1 or -1, not '{label}'"):
        load_graph(folder)


@pytest.mark.filterwarnings("ignore:g. 1 entity")
def test_given_negatives_belong_to_the_graph(tmp_path):
    graph = load_graph(labelled(tmp_path))
    write_graph_files(graph, tmp_path / "again" / "g")
    again = load_graph(tmp_path / "again" / "g")
    assert again.fingerprint == graph.fingerprint
    assert again.negatives["test"].tolist() == graph.negatives["test"].tolist()
    without = replace(graph, negatives={})
    assert without.fingerprint != graph.fingerprint
    empty = replace(graph, negatives={"test": graph.test[:0]})
    assert empty.fingerprint == without.fingerprint
    with pytest.raises(DataError, match="test split has ids out of range"):
        replace(graph, negatives={"test": [[0, 0, 99]]})


def test_the_fingerprint_of_a_graph_without_negatives_never_changes():
    assert graph_from_triples(TRAIN, VALID, TEST).fingerprint == "48a96beab4b2b5b7"


def test_a_graph_too_large_for_one_key_is_refused():
    with pytest.raises(DataError, match="too many"):
        building.check_size(2**31 - 1, 3, "g")
    building.check_size(2**31 - 1, 2, "g")


def test_an_empty_train_split_is_refused():
    empty = TripleTable(pl.DataFrame(schema=dict.fromkeys(("head", "relation", "tail"), pl.String)))
    full = TripleTable(pl.DataFrame(VALID, schema=["head", "relation", "tail"], orient="row"))
    with pytest.raises(DataError, match="the train split has no triples"):
        build_graph([empty, full, None], name="g")


def test_a_path_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(DataError, match="there is no such file or folder"):
        load_graph(tmp_path / "no")
    with pytest.raises(DataError, match="there is no such file or folder"):
        load_graph("no.tsv")


def test_importing_the_readers_does_not_import_polars():
    code = "import sys, bilink.data.loading; sys.exit('polars' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.realdata
@pytest.mark.skipif("BILINK_DATA" not in os.environ, reason="BILINK_DATA is not set")
def test_a_graph_of_two_million_triples_loads_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = load_graph("hsgene")
    assert (len(graph.entities), len(graph.train)) == (378_510, 1_902_052)
