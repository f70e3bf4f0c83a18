"""Make the seeds of the target graphs: small valid files in every format that is read.

They are committed, so that a case is the same whatever release of polars is installed; run this
again only to add one.
"""

import gzip
import io
import tarfile

import polars as pl
from harness import SEEDS

NAMES = ("Zürich", "Bern", "Alps", "a b", "Rhine", "Aare", "Q1", "Q2", "x-9", "10")
RELATIONS = ("in", "flows through", "near")
N = len(NAMES)
TRIPLES = [(NAMES[i % N], RELATIONS[i % 3], NAMES[(i * 3 + i // N + 1) % N]) for i in range(24)]
URL = "http://example.org/"


def lines(separator, triples, end="\n", quoted=False):
    cell = '"{}"'.format if quoted else str
    return "".join(separator.join(map(cell, row)) + end for row in triples).encode()


def packed(data):
    return gzip.compress(data, mtime=0)


def table(**options):
    labels = {"label": [1, -1] * (len(TRIPLES) // 2)} if options.pop("labels", False) else {}
    columns = dict(zip(("head", "relation", "tail"), zip(*TRIPLES, strict=True), strict=True))
    buffer = io.BytesIO()
    pl.DataFrame({**columns, **labels}).write_parquet(buffer, **options)
    return buffer.getvalue()


def iris(ending):
    def iri(name):
        return URL + name.replace(" ", "_")

    if ending == "nt":
        links = "".join(f"<{iri(h)}> <{iri(r)}> <{iri(t)}> .\n" for h, r, t in TRIPLES)
        return (links + f'<{URL}a> <{URL}b> "text"@en .\n_:x <{URL}near> _:y .\n').encode()
    text = f"@prefix e: <{URL}> .\n# a comment\n"
    text += "e:a e:in e:b , e:c ; e:near [ e:in e:d ] .\n"
    text += 'e:b e:name """long\ntext""" ; e:size 12 , 1.5e3 , true .\n'
    text += "e:l e:near ( e:a e:b ) .\n<x> a e:Thing .\n".replace("<x>", f"<{URL}x>")
    return (text + f"<< e:a e:in e:b >> e:seen e:c .\nBASE <{URL}>\n<p> <q> <r> .\n").encode()


def indexes(order):
    ids = {name: i for i, name in enumerate(NAMES)}
    relations = {name: i for i, name in enumerate(RELATIONS)}
    rows = [(ids[h], relations[r], ids[t]) for h, r, t in TRIPLES]
    return [tuple(row[i] for i in order) for row in rows]


def archive():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for split in ("train", "valid", "test"):
            data = lines("\t", TRIPLES)
            member = tarfile.TarInfo(f"graph/{'long' * 40 if split == 'test' else ''}/{split}.txt")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return packed(buffer.getvalue())


def counted(data):
    return b"%d\n" % data.count(b"\n") + data


LABELS = "".join(f"{name}\tThe label of {name}\n" for name in NAMES).encode()
UNEVEN = [tuple(f" {x}" if i % 5 == 4 else x for x in row) for i, row in enumerate(TRIPLES)]
FILES = {
    "tabs.tsv": lines("\t", TRIPLES),
    "crlf.txt": b"\xef\xbb\xbf" + lines("\t", TRIPLES, "\r\n"),
    "spaces.txt": lines(" ", [[x.replace(" ", "_") for x in row] for row in TRIPLES]),
    "edges.tsv": b"\n\n" + lines("\t", UNEVEN, "\n\n"),
    "commas.csv": lines(",", [("subject", "predicate", "object"), *TRIPLES]),
    "quoted.csv": lines(",", [(h, f'a, ""{r}""', f"{t}\n2") for h, r, t in TRIPLES], quoted=True),
    "semicolons.csv": lines(";", [("target", "source", "type"), *TRIPLES]),
    "labelled.tsv": lines("\t", [(*row, 1 if i % 3 else -1) for i, row in enumerate(TRIPLES)]),
    "named.csv": lines(",", [("h", "y", "r", "t"), *((h, 1, r, t) for h, r, t in TRIPLES)]),
    "packed.tsv.gz": packed(lines("\t", TRIPLES)),
    "twice.tsv.gz": packed(lines("\t", TRIPLES[:12])) + packed(lines("\t", TRIPLES[12:])),
    "bomb.tsv.gz": packed(b"a\tb\tc\n" * (24 << 20)),
    "plain.parquet": table(compression="uncompressed"),
    "labels.parquet": table(compression="zstd", labels=True, row_group_size=7),
    "snappy.pq": table(compression="snappy", statistics="full", use_pyarrow=False),
    "links.nt": iris("nt"),
    "links.ttl": iris("ttl"),
    "links.nt.gz": packed(iris("nt")),
    "archive.tar.gz": archive(),
}
FOLDERS = {
    "splits": {
        "train.tsv": lines("\t", TRIPLES),
        "valid.tsv.gz": packed(lines("\t", TRIPLES[:4])),
        "test.csv": lines(",", [("head", "relation", "tail", "label"), ("Bern", "in", "Q1", -1)]),
        "entity_labels.tsv": LABELS,
        "relation_labels.tsv.gz": packed(b"in\tlies in\nnear\tis near\n"),
    },
    "libkge": {
        **{f"{s}.del": lines("\t", indexes((0, 1, 2))) for s in ("train", "valid", "test")},
        "entity_ids.del": lines("\t", enumerate(NAMES)),
        "relation_ids.del": lines("\t", enumerate(RELATIONS)),
        "entity_strings.del": lines("\t", enumerate(map(str.upper, NAMES))),
    },
    "openke": {
        **{
            f"{s}2id.txt": counted(lines(" ", indexes((0, 2, 1))))
            for s in ("train", "valid", "test")
        },
        "entity2id.txt": counted(lines("\t", ((name, i) for i, name in enumerate(NAMES)))),
        "relation2id.txt": counted(lines("\t", ((name, i) for i, name in enumerate(RELATIONS)))),
    },
}


def main():
    base = SEEDS / "graphs"
    contents = {base / name: data for name, data in FILES.items()}
    for folder, files in FOLDERS.items():
        contents |= {base / folder / name: data for name, data in files.items()}
    for path, data in contents.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


if __name__ == "__main__":
    main()
