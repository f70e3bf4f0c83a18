"""Triples per second of PyKEEN's sLCWA loop.  Runs in the peer's environment."""

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from pykeen.losses import MarginRankingLoss
from pykeen.models import RESCAL, ComplEx, DistMult, HolE, TransE
from pykeen.training import SLCWATrainingLoop
from pykeen.triples import CoreTriplesFactory

MODELS = {
    "transe": (TransE, {"scoring_fct_norm": 2, "power_norm": True}),
    "hole": (HolE, {}),
    "complex": (ComplEx, {}),
    "distmult": (DistMult, {}),
    "rescal": (RESCAL, {}),
}


def triples_per_second(arrays, name, dim, batch_size, batches):
    """One warm-up epoch, one timed epoch over ``batches`` batches of the training triples."""
    wanted = min(len(arrays["train"]), batch_size * batches)
    rows = np.random.default_rng(0).choice(len(arrays["train"]), wanted, replace=False)
    n, k = (int(x) for x in arrays["sizes"])
    factory = CoreTriplesFactory(
        torch.as_tensor(arrays["train"][rows], dtype=torch.long), num_entities=n, num_relations=k
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
    seconds = []
    for epochs in (1, 2):  # the loop goes on from where it was
        started = time.perf_counter()
        loop.train(
            triples_factory=factory,
            num_epochs=epochs,
            batch_size=batch_size,
            use_tqdm=False,
            use_tqdm_batch=False,
            continue_training=epochs > 1,
            drop_last=False,
            num_workers=0,
        )
        seconds.append(time.perf_counter() - started)
    return wanted / seconds[-1]


question = json.load(sys.stdin)
with np.load(Path(sys.argv[1]) / "arrays.npz") as file:
    arrays = dict(file)
print(json.dumps({"speed": triples_per_second(arrays, **question)}))
