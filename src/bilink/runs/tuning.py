"""What differs from graph to graph, settled by short trainings that are compared on validation.

The best weight of N3 is 0.003 on FB15K and 0.1 on WN18RR, and nothing that could be counted on a
graph tells the two apart.  A dozen epochs over a sample of negatives do.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from bilink.errors import TrainingError
from bilink.models.registry import family
from bilink.runs.job import Job, ShouldStop
from bilink.training.config import Config, SoftmaxConfig, flat
from bilink.training.presets import PENALTIES, Tuning

EPOCHS = 12
NEGATIVES = 1000
TRIPLES = 2000  # of validation
WORSE = 0.01  # of validation MRR: after one that is so much worse, stronger ones are not tried
RELATIONS = 500  # up to which predicting them is cheap


def tuned(
    job: Job,
    given: Mapping[str, Any],
    say: Callable[[str], None] = lambda text: None,
    should_stop: ShouldStop = lambda: False,
) -> Job:
    """The job with what short trainings prefer, if neither epochs nor penalty are given."""
    asked = {key.split(".")[0] for key in dict(flat(given))}
    if not can_tune(job) or asked & {"epochs", "minutes", "regularization"}:
        return job
    found = tune(job, say=say, should_stop=should_stop)
    return job if found is None else job.with_tuning(found)


def can_tune(job: Job) -> bool:
    """Whether there is something to settle, and a validation split to settle it by."""
    training = job.config.training
    return (
        isinstance(training, SoftmaxConfig)
        and training.regularization.kind != "l2"
        and training.parts == 1  # trials are in memory
        and len(job.graph.valid) > 1
    )


def tune(
    job: Job,
    *,
    seconds: float = float("inf"),
    say: Callable[[str], None] = lambda text: None,
    should_stop: ShouldStop = lambda: False,
) -> Tuning | None:
    """What did best, each tried for a part of ``seconds``; None without a trial."""
    found: dict[Tuning, float] = {}
    part = seconds / (len(PENALTIES) + 1)

    def tried(tuning: Tuning) -> float:
        """Its validation MRR."""
        trial = replace(job, config=replace(job.config, training=_short(job)))
        try:
            run = (
                trial.with_tuning(tuning)
                .fitted_to(part)
                .run(should_stop=should_stop, calibrate=False)
            )
        except TrainingError:
            return 0.0
        found[tuning] = run.history[-1].get("validation_mrr", 0.0)
        return found[tuning]

    for penalty in PENALTIES:
        if should_stop() or tried(Tuning(penalty)) < max(found.values(), default=0.0) - WORSE:
            break
    if not found:
        return None
    best = max(found, key=lambda tuning: found[tuning])
    trials = ", ".join(f"{tuning.penalty:g}: {mrr:.3f}" for tuning, mrr in found.items())
    said = f"penalty {best.penalty:g}; validation MRR of short trainings with each: {trials}"
    if _predicts_relations(job) and not should_stop():
        other = best._replace(relation_prediction=1.0)
        said += f"; with relation prediction {tried(other):.3f}"
        best = max(found, key=lambda tuning: found[tuning])
    say(said)
    return best


def _predicts_relations(job: Job) -> bool:
    """Whether predicting relations as well is possible, and cheap."""
    kind = family(job.config.model)
    return (
        not kind.form.is_distance
        and kind.base != "rescal"
        and len(job.graph.relations) <= RELATIONS
    )


def _short(job: Job) -> Config:
    """The settings of a trial, but for what it tries."""
    training = job.config.training
    assert isinstance(training, SoftmaxConfig)
    options = {
        "epochs": EPOCHS,
        "full_epochs": 0,
        "rounding": 0,
        "decay": training.decay ** (training.epochs / EPOCHS),
        "negatives": NEGATIVES if len(job.graph.entities) > 2 * NEGATIVES else 0,
        "validation_triples": TRIPLES,
        "validate_every": EPOCHS,
        "keep": "last",
        "patience": 0,
    }
    return training.with_options(options)
