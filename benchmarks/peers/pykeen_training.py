"""Triples per second of PyKEEN's sLCWA loop.  Run by ``common.ask_peer``."""

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from pykeen.losses import MarginRankingLoss
from pykeen.models import RESCAL, ComplEx, DistMult, HolE, TransE
from pykeen.training import SLCWATrainingLoop, TrainingCallback
from pykeen.triples import CoreTriplesFactory

MODELS = {
    "transe": (TransE, {"scoring_fct_norm": 2, "power_norm": True}),
    "hole": (HolE, {}),
    "complex": (ComplEx, {}),
    "distmult": (DistMult, {}),
    "rescal": (RESCAL, {}),
}


class Clock(TrainingCallback):
    """The time at the end of each epoch."""

    def __init__(self):
        super().__init__()
        self.times = []

    def post_epoch(self, **_):
        self.times.append(time.perf_counter())


def triples_per_second(arrays, name, dim, batch_size, epochs, batches=None):
    """The best of ``epochs`` epochs after a first one, which pays for the set-up.

    An epoch visits all training triples, or ``batches`` batches of them.
    """
    triples = arrays["train"]
    if batches and batch_size * batches < len(triples):
        rows = np.random.default_rng(0).choice(len(triples), batch_size * batches, replace=False)
        triples = triples[rows]
    n, k = (int(x) for x in arrays["sizes"])
    factory = CoreTriplesFactory(
        torch.as_tensor(triples, dtype=torch.long), num_entities=n, num_relations=k
    )
    cls, options = MODELS[name]
    model = cls(
        triples_factory=factory,
        embedding_dim=dim,
        loss=MarginRankingLoss(margin=1.0),
        random_seed=0,
        **options,
    )
    loop = SLCWATrainingLoop(
        model=model,
        triples_factory=factory,
        optimizer=torch.optim.Adagrad(model.parameters(), lr=0.1),
        negative_sampler="basic",
        negative_sampler_kwargs={"num_negs_per_pos": 1},
    )
    clock = Clock()
    loop.train(
        triples_factory=factory,
        num_epochs=1 + epochs,
        batch_size=batch_size,
        use_tqdm=False,
        use_tqdm_batch=False,
        drop_last=False,
        num_workers=0,
        callbacks=clock,
    )
    return len(triples) / np.diff(clock.times).min()


question = json.load(sys.stdin)
with np.load(Path(sys.argv[1]) / "arrays.npz") as file:
    arrays = dict(file)
print(json.dumps({"speed": triples_per_second(arrays, **question)}))
