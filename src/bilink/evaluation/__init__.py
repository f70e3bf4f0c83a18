"""How good a scorer is: ranks, metrics, classification, calibration, significance."""

from bilink._extras import lazy

_NAMES = {
    "calibration": ("Calibration", "compare_calibrations", "fit_calibration"),
    "classification": ("Classification", "classify_triples"),
    "entity_ranking": ("EntityRanking", "rank_entities"),
    "ranks": ("Ranks", "rank_triples", "top_candidates"),
    "reliability": ("Reliability",),
    "significance": ("paired_test",),
}
__all__, __getattr__ = lazy(__name__, _NAMES)
