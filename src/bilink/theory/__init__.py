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

_NAMES = {
    "consistency": ("check_consistency",),
    "consistent_models": ("Construction", "consistent_model", "construct"),
    "conversions": ("ARROWS", "Certificate", "convert", "mixture_as_rescal"),
    "counterexamples": ("below_n", "counterexample"),
    "description": ("describe", "draw_theory", "kept_bounds"),
    "rankings": ("dense_rank", "refines", "same_ranking", "same_scores", "score_tensor"),
    "relations": ("RelationFacts", "facts_of"),
    "rounding.certificates": ("Factors",),
    "rounding.rank": ("rounding_rank",),
    "table1": ("bounds", "bounds_of"),
    "universality": ("represent",),
}
__all__, __getattr__ = lazy(__name__, _NAMES)
