"""Scores of PyKEEN's interaction functions on given rows.  Run by ``common.ask_peer``.

The arrays are those of ``models``, of one triple per row: heads, tails, and relations as they stand
in bilink's files.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from pykeen.nn.modules import NTNInteraction, TransHInteraction, TransRInteraction

question = json.load(sys.stdin)
with np.load(Path(sys.argv[1]) / "arrays.npz") as file:
    heads, relations, tails = (torch.as_tensor(file[x]) for x in ("heads", "relations", "tails"))
n, d = heads.shape
if question["name"] == "transh":  # with the constraints that PyKEEN leaves to its training
    translation, normal = relations.split(d, dim=1)
    normal = normal / normal.norm(dim=1, keepdim=True)
    translation = translation - (normal * translation).sum(dim=1, keepdim=True) * normal
    interaction, parts = TransHInteraction(p=2, power_norm=True), (normal, translation)
elif question["name"] == "transr":  # without its bound on norms of projections
    interaction = TransRInteraction(p=2, power_norm=True, max_projection_norm=1e9)
    parts = relations[:, :d], relations[:, d:].reshape(n, d, d).transpose(1, 2)
else:
    k = question["slices"]
    matrices, vectors, constants, weights = relations.split([k * d * d, 2 * k * d, k, k], dim=1)
    vectors = vectors.reshape(n, k, 2 * d)
    parts = (
        matrices.reshape(n, k, d, d),
        vectors[:, :, :d],
        vectors[:, :, d:],
        constants,
        weights,
    )
    interaction = NTNInteraction()
with torch.no_grad():
    print(json.dumps({"scores": interaction(heads, parts, tails).tolist()}))
