"""Seconds of PyKEEN's filtered evaluator on given embeddings.  Run by ``common.ask_peer``."""

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from pykeen.evaluation import RankBasedEvaluator
from pykeen.models import ComplEx, DistMult, TransE
from pykeen.triples import CoreTriplesFactory

question = json.load(sys.stdin)
with np.load(Path(sys.argv[1]) / "arrays.npz") as file:
    arrays = dict(file)
n, k = (int(x) for x in arrays["sizes"])
splits = {
    name: torch.as_tensor(arrays[name], dtype=torch.long) for name in ("train", "valid", "test")
}
factory = CoreTriplesFactory(splits["train"], num_entities=n, num_relations=k)
entities, relations = arrays["entities"], arrays["relations"]
name = question["name"]
if name == "transe":
    model = TransE(
        triples_factory=factory,
        embedding_dim=entities.shape[1],
        scoring_fct_norm=2,
        power_norm=True,
        entity_constrainer=None,
    )
elif name == "distmult":
    model = DistMult(
        triples_factory=factory, embedding_dim=entities.shape[1], entity_constrainer=None
    )
else:
    model = ComplEx(triples_factory=factory, embedding_dim=entities.shape[1] // 2)


def interleaved(rows):
    """Real and imaginary parts side by side, as PyKEEN keeps complex numbers."""
    if name != "complex":
        return torch.as_tensor(rows)
    return torch.as_tensor(np.stack(np.split(rows, 2, axis=1), axis=2).reshape(len(rows), -1))


with torch.no_grad():
    for representation, rows in (
        (model.entity_representations[0], entities),
        (model.relation_representations[0], relations),
    ):
        weight = next(p for p in representation.parameters())
        weight.copy_(interleaved(rows).view(weight.shape))
triples = splits["test"][: question["triples"]]
evaluator = RankBasedEvaluator(filtered=True)
started = time.perf_counter()
result = evaluator.evaluate(
    model=model,
    mapped_triples=triples,
    batch_size=question["batch_size"],
    additional_filter_triples=[splits["train"], splits["valid"], splits["test"]],
    use_tqdm=False,
)
seconds = time.perf_counter() - started
mrr = result.get_metric("both.realistic.inverse_harmonic_mean_rank")
print(json.dumps({"seconds": seconds, "mrr": float(mrr)}))
