"""The target run_folders: all that can be asked of a run whose folder came from elsewhere."""

from pathlib import Path

from harness import SEEDS, Target, read_seeds

import bilink
from bilink.runs.audit import kept_doubts
from bilink.runs.folder import RunFolder
from bilink.runs.trained import TrainedRun

FIXTURES = Path(__file__).parents[1] / "fixtures"
TOKENS = (
    *(b"__metadata__", b'"F32"', b'"BF16"', b'"I64"', b'"data_offsets"', b'"shape"', b'"digest"'),
    *(b"\n[data]\n", b"\n[training]\n", b"[[members]]\n", b"fingerprint", b"epochs = 3", b"dim"),
    *(b"\x00\x00\xc0\x7f", b"\x00\x00\x80\x7f", b"1979-05-27T07:32:00Z", b"'''", b" = {a.b.c = 1}"),
)


def run(path: Path) -> None:
    """Load the run and ask it; go on with it for an epoch if it was trained."""
    loaded = bilink.load(path)
    head, relation = loaded.graph.entities.names[0], loaded.graph.relations.names[0]
    assert len(loaded.query(head=head, relation=relation, k=3)) <= 3
    loaded.query(relation=relation, k=3)
    loaded.query(head=head, tail=head)
    loaded.probability([(head, relation, head)])
    kept_doubts(loaded)
    result = loaded.evaluate()
    RunFolder(path).write_metrics(result.to_dict(), loaded.digest)
    if isinstance(loaded, TrainedRun):
        bilink.resume(path, should_stop=lambda: True)


TARGET = Target(
    "run_folders",
    [
        *read_seeds(SEEDS / "run_folders"),
        *(
            seed
            for kind, names in {
                "format-1": ("stopped", "ensemble-platt", "converted"),
                "rules-1": ("both", "ptranse"),
            }.items()
            for seed in read_seeds(FIXTURES / kind / "runs")
            if seed.name in names
        ),
    ],
    run,
    TOKENS,
)
