"""Draw docs/theory_rankings.png: small rankings, and what they show.

python tools/make_theory_pictures.py
"""

from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from bilink.models.model import Model
from bilink.models.registry import family
from bilink.theory.conversions import convert
from bilink.theory.counterexamples import below_n, counterexample
from bilink.theory.rankings import dense_rank, score_tensor

ROOT = Path(__file__).parent.parent


def converted_ranking():
    """The ranking of a TransE model on a line, as RESCAL has it."""
    line = np.arange(5.0)[:, None]
    made, _ = convert(Model(family("transe"), 1, line, np.ones((1, 1))), "rescal")
    return dense_rank(score_tensor(made)[0])


def draw(axes, ranking, title):
    n = len(ranking)
    axes.imshow(ranking, cmap="YlGnBu_r", vmin=1 - ranking.max(), vmax=ranking.max() + 1)
    for i in range(n):
        for j in range(n):
            axes.text(j, i, ranking[i, j], ha="center", va="center", fontsize=12)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("tails", fontsize=9)
    axes.set_ylabel("heads", fontsize=9)
    for side in axes.spines.values():
        side.set_visible(False)


def main():
    figure, (first, second, third, fourth) = plt.subplots(
        1, 4, figsize=(11, 3), width_ratios=(1, 1, 1.6, 1.6), layout="constrained"
    )
    draw(first, counterexample("distmult").ranking, "no DistMult model:\nit is not symmetric")
    draw(second, counterexample("transe").ranking, "no TransE model:\nthe diagonal is not level")
    draw(third, below_n(5).ranking, "no RESCAL model of size 4,\nbut one of size 5")
    draw(fourth, converted_ranking(), "“next” on a line: TransE of size 1,\nRESCAL of size 3")
    figure.savefig(ROOT / "docs/theory_rankings.png", dpi=110)


if __name__ == "__main__":
    main()
