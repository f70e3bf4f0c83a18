"""How good a scorer is: ranks, metrics, classification, calibration, significance."""

from bilink._extras import lazy

_HOMES = {
    "Calibration": "calibration",
    "Classification": "classification",
    "EntityRanking": "entity_ranking",
    "Ranks": "ranks",
    "Reliability": "reliability",
    "classify_triples": "classification",
    "compare_calibrations": "calibration",
    "fit_calibration": "calibration",
    "paired_test": "significance",
    "rank_entities": "entity_ranking",
    "rank_triples": "ranks",
    "top_candidates": "ranks",
}
__all__ = list(_HOMES)
__getattr__ = lazy(__name__, _HOMES)
