"""What each family of models can express, and at which size: theorems as functions.

rankings            what a ranking is, and when two models agree
slices              the common form of the bilinear models
conversions         one model as another, with a certificate; those of TransE are in translations
counterexamples     what DistMult, TransE and small RESCAL models cannot express
universality        a model for any ranking
consistency         whether a model scores all facts above all other pairs
consistent_models   a model that does, from factors or from a graph
relations           the facts of each relation, and what DistMult and TransE lose of them
rounding/           the rounding rank of relations, with certificates
description         what a graph asks of each model
table1              Table 1 of Wang et al. (2018), as printed and corrected
"""

from bilink._extras import lazy

_HOMES = {
    "ARROWS": "conversions",
    "Certificate": "conversions",
    "Construction": "consistent_models",
    "Factors": "rounding.certificates",
    "RelationFacts": "relations",
    "below_n": "counterexamples",
    "bounds": "table1",
    "bounds_of": "table1",
    "check_consistency": "consistency",
    "consistent_model": "consistent_models",
    "construct": "consistent_models",
    "convert": "conversions",
    "counterexample": "counterexamples",
    "dense_rank": "rankings",
    "describe": "description",
    "draw_theory": "description",
    "facts_of": "relations",
    "kept_bounds": "description",
    "mixture_as_rescal": "conversions",
    "refines": "rankings",
    "represent": "universality",
    "rounding_rank": "rounding.rank",
    "same_ranking": "rankings",
    "same_scores": "rankings",
    "score_tensor": "rankings",
}
__all__ = list(_HOMES)
__getattr__ = lazy(__name__, _HOMES)
