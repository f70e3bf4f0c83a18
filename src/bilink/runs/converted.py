"""A run whose model was not trained, but made from a trained one of another family."""

from dataclasses import replace
from pathlib import Path

from bilink.errors import RunError
from bilink.runs.folder import RunFolder
from bilink.runs.trained import read_trained
from bilink.theory.conversions import Certificate, convert


def convert_run(
    path: str | Path,
    to: str,
    out: str | Path,
    *,
    construction: str = "tight",
    dim: int | None = None,
    force: bool = False,
) -> Certificate:
    """Write the run in ``path`` to ``out`` with its model converted to the family ``to``.

    The new run has the graph, the training options and the history of the old one; the table
    ``[made]`` of its config says what was done.  It can be asked and evaluated like any other,
    but not resumed.
    """
    if Path(out).resolve() == Path(path).resolve():
        raise RunError(f"{out} is the run that is converted; choose another --out")
    source = read_trained(RunFolder(path))
    model, certificate = convert(source.model, to, construction, dim)
    config = replace(
        source.config,
        model=model.family.name,
        dim=model.dim,
        made={"by": "conversion", "run": str(path), **certificate.to_dict()},
    )
    folder = RunFolder(out)
    with folder.created(force):
        folder.write_graph(source.graph)
        for record in source.history:
            folder.append_history(record)
        folder.write_model(model)
        folder.write_config(config)  # last, since it makes the run valid
    return certificate
