"""bilink predicts missing links in knowledge graphs.

>>> import bilink
>>> run = bilink.train("atlas", model="complex")  # doctest: +SKIP
>>> run.query(head="Austria", relation="borders")  # doctest: +SKIP
"""

import os
from typing import TYPE_CHECKING

from bilink._extras import lazy

# Idle threads of OpenBLAS look for work for two to the power of so many cycles, and take the cores
# from whoever works beside them; 26 unless set.  See benchmarks/two_at_once.py.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "18")

__version__ = "0.2.0"

# The front door.  Each name is imported when it is first used, so that `import bilink` is quick.
_NAMES = {
    "errors": ("BilinkError",),
    "data.graph": ("Graph",),
    "data.loading": ("load_graph", "graph_from_triples"),
    "data.statistics": ("describe",),
    "data.negatives": ("sample_negatives",),
    "models.model": ("Model",),
    "runs.run": ("Run",),
    "runs.job": ("train", "resume"),
    "runs.loading": ("load",),
    "runs.audit": ("audit",),
    "runs.combined": ("combine",),
    "queries.answers": ("read_questions",),
    "evaluation.entity_ranking": ("rank_entities",),
    "evaluation.classification": ("classify_triples",),
    "evaluation.probability": ("fit_probability",),
    "evaluation.reliability": ("reliability",),
    "evaluation.significance": ("paired_test",),
}
_public, __getattr__ = lazy(__name__, _NAMES)
__all__ = [*_public, "__version__"]

if TYPE_CHECKING:
    from bilink.data.graph import Graph as Graph
    from bilink.data.loading import graph_from_triples as graph_from_triples
    from bilink.data.loading import load_graph as load_graph
    from bilink.data.negatives import sample_negatives as sample_negatives
    from bilink.data.statistics import describe as describe
    from bilink.errors import BilinkError as BilinkError
    from bilink.evaluation.classification import classify_triples as classify_triples
    from bilink.evaluation.entity_ranking import rank_entities as rank_entities
    from bilink.evaluation.probability import fit_probability as fit_probability
    from bilink.evaluation.reliability import reliability as reliability
    from bilink.evaluation.significance import paired_test as paired_test
    from bilink.models.model import Model as Model
    from bilink.queries.answers import read_questions as read_questions
    from bilink.runs.audit import audit as audit
    from bilink.runs.combined import combine as combine
    from bilink.runs.job import resume as resume
    from bilink.runs.job import train as train
    from bilink.runs.loading import load as load
    from bilink.runs.run import Run as Run


def __dir__() -> list[str]:
    return sorted({*globals(), *_public})
