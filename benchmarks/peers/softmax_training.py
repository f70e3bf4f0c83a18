"""Facts per second of softmax training elsewhere.  Run by ``common.ask_peer``."""

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from pykeen.losses import CrossEntropyLoss
from pykeen.models import ComplEx
from pykeen.training import LCWATrainingLoop, SLCWATrainingLoop
from pykeen.triples import CoreTriplesFactory

BATCHES = 6


def pykeen(arrays, negatives, batch):
    """PyKEEN's own loops.  LCWA asks for tails only, sLCWA corrupts one side: half of our work."""
    n, k = (int(x) for x in arrays["sizes"])
    facts = batch * BATCHES // 2
    rows = np.random.default_rng(0).choice(len(arrays["train"]), facts, replace=False)
    factory = CoreTriplesFactory(
        torch.as_tensor(arrays["train"][rows], dtype=torch.long), num_entities=n, num_relations=k
    )
    model = ComplEx(
        triples_factory=factory, embedding_dim=100, loss=CrossEntropyLoss(), random_seed=0
    )
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    if negatives:
        loop = SLCWATrainingLoop(
            model=model,
            triples_factory=factory,
            optimizer=optimizer,
            negative_sampler="basic",
            negative_sampler_kwargs={"num_negs_per_pos": negatives},
        )
    else:
        loop = LCWATrainingLoop(model=model, triples_factory=factory, optimizer=optimizer)
    seconds = []
    for epochs in (1, 2):
        started = time.perf_counter()
        loop.train(
            triples_factory=factory,
            num_epochs=epochs,
            batch_size=batch // 2 if negatives else batch,
            use_tqdm=False,
            use_tqdm_batch=False,
            continue_training=epochs > 1,
            drop_last=False,
            num_workers=0,
        )
        seconds.append(time.perf_counter() - started)
    return facts / seconds[-1]


def plain_torch(arrays, negatives, batch):
    """One product, one cross-entropy, autograd and Adagrad, for both sides of each fact."""
    n, k = (int(x) for x in arrays["sizes"])
    train = torch.as_tensor(arrays["train"], dtype=torch.long)
    entities = torch.nn.Parameter(torch.randn(n, 200) * 1e-3)
    relations = torch.nn.Parameter(torch.randn(k, 200) * 1e-3)
    optimizer = torch.optim.Adagrad([entities, relations], lr=0.1)
    size = batch // 2  # two questions for each fact
    started = time.perf_counter()
    for i in range(BATCHES + 2):
        if i == 2:
            started = time.perf_counter()
        h, r, t = train[torch.randint(len(train), (size,))].T
        (a, b), (c, d), (x, y) = (
            table[ids].split(100, dim=1)
            for table, ids in ((entities, h), (relations, r), (entities, t))
        )
        tails = torch.cat([a * c - b * d, a * d + b * c], dim=1)
        heads = torch.cat([x * c + y * d, y * c - x * d], dim=1)
        queries, answers = torch.cat([tails, heads]), torch.cat([t, h])
        if negatives:
            drawn = torch.randint(n, (negatives,))
            own = (queries * entities[answers]).sum(dim=1, keepdim=True)
            scores = torch.cat([own, queries @ entities[drawn].T], dim=1)
            answers = torch.zeros(len(queries), dtype=torch.long)
        else:
            scores = queries @ entities.T
        loss = torch.nn.functional.cross_entropy(scores, answers)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return BATCHES * size / (time.perf_counter() - started)


question = json.load(sys.stdin)
with np.load(Path(sys.argv[1]) / "arrays.npz") as file:
    found = dict(file)
work = pykeen if question.pop("peer") == "pykeen" else plain_torch
print(json.dumps({"speed": work(found, **question)}))
