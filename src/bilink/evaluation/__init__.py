"""How good a scorer is: ranks, metrics, classification, probabilities, significance."""

from bilink._extras import lazy

_NAMES = {
    "classification": ("Classification", "classify_triples"),
    "entity_ranking": ("EntityRanking", "rank_entities"),
    "evidence": ("Evidence",),
    "probability": ("Probability", "ask_test", "fit_probability"),
    "ranks": ("Ranks", "rank_triples", "top_candidates"),
    "reliability": ("Reliability",),
    "significance": ("paired_test",),
}
__all__, __getattr__ = lazy(__name__, _NAMES)
