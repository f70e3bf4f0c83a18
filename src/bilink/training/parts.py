"""Training in parts: the rows of entities lie in files, and two parts of them are in memory.

An epoch goes through buckets (``buckets``), each of which an engine trains like any small graph.
Before an epoch, the entities are dealt into parts anew.  The folder holds

    part-P-D-V.safetensors      version V of part P of deal D: ids, rows, their optimizer state
    relations-D-V.safetensors   the same of the relations, which are always in memory
    best.N.safetensors          all rows, in order, after epoch N: the best on validation so far
    journal.jsonl               which of these hold; one line for each bucket of the epoch

A bucket is done when its files are synced and then its line in the journal is; the files that it
replaces are removed after that.  So a process that dies loses the bucket that it was training, and
what it has not finished is done again from the same files, with the same random numbers.
"""

import json
import math
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bilink._documents import converted, read_json_lines
from bilink._files import append_text, sync_file, sync_folder, write_error, write_text
from bilink._random import Stream, generator
from bilink.data.graph import Graph
from bilink.data.vocabulary import Vocabulary
from bilink.errors import BilinkError, ConfigError, DataError, RunError
from bilink.models.model import Model
from bilink.models.registry import Family
from bilink.models.storage import TensorFile, map_tensors, shapes_of
from bilink.training.buckets import Deal, bucket_order, bucket_seed, deal_entities, part_sizes
from bilink.training.config import Config, RgcnConfig, SoftmaxConfig
from bilink.training.engine import EpochPausedError, EpochTotals, Pause, Position, Progress
from bilink.training.loop import (
    OnProgress,
    TrainingResult,
    fill_entities,
    fill_relations,
    initial_bounds,
    make_engine,
    run_epochs,
)
from bilink.training.margin import MarginEngine
from bilink.training.softmax import SoftmaxEngine

MOST = 256  # parts
FORMAT, JOURNAL_FORMAT, VERSION = "bilink-part", "bilink-parts", 1
JOURNAL, NOW = "journal.jsonl", "now.safetensors"
OURS = re.compile(
    r"journal\.jsonl|(part-\d+-\d+-\d+|relations-\d+-\d+|best\.\d+|now)\.safetensors|\..*\.tmp"
)
_CHUNK = 2**24  # bytes that are read ahead at once

Arrays = dict[str, np.ndarray]


def fit_in_parts(
    family: Family,
    dim: int,
    graph: Graph,
    config: Config,
    folder: Path,
    *,
    validate: Callable[[Model], float] | None = None,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
    on_progress: OnProgress | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    redeal: bool = True,
) -> TrainingResult:
    """As ``loop.fit``, with the state in ``folder``, from where training goes on if it is there.

    The arrays of the model that is returned lie in a file.  Without ``redeal``, parts are dealt
    once, and not before each epoch.
    """
    check_parts(graph, config)
    keeper = _InParts(PartsEngine(family, dim, graph, config, folder, redeal))
    return run_epochs(keeper, config, validate, on_epoch, on_progress, should_stop)


def check_parts(graph: Graph, config: Config) -> None:
    """Refuse what does not go with training in parts."""
    if len(graph.train) == 0:
        raise DataError(f"graph {graph.name!r} has no training triples")
    if isinstance(config, RgcnConfig):
        raise ConfigError(
            "a step of R-GCN passes the whole graph, so it is not trained in parts; leave parts out"
        )
    if config.parts > len(graph.entities):
        raise ConfigError(
            f"parts cannot be {config.parts}: there are {len(graph.entities):,} entities"
        )
    if config.start:
        raise ConfigError("start does not go with parts; leave one of them out")
    if isinstance(config, SoftmaxConfig) and config.label_smoothing:
        raise ConfigError(
            "label_smoothing goes with all entities as candidates, and parts have two parts of "
            "them; set label_smoothing=0"
        )


@dataclass(frozen=True)
class _Done:
    """A line of the journal: a bucket that was trained, and what it replaced."""

    bucket: int
    parts: tuple[int, int]
    versions: tuple[int, int]  # of both parts, from now on
    relations: int  # version
    loss: float
    violated: float
    pairs: int
    seconds: float


@dataclass(frozen=True)
class _State:
    """The first line of the journal: the files that hold, and how far training has come."""

    graph: str  # fingerprint
    model: str
    dim: int
    parts: int
    versions: list[int] = field(default_factory=list)  # of each part
    relations: int = 0
    deal: int = -1  # none yet
    best: int | None = None  # the epoch of the best model so far
    progress: Progress = field(default_factory=Progress)
    format: str = JOURNAL_FORMAT
    version: int = VERSION


class PartFiles:
    """The files of a training in parts; those that no line of the journal names do not count."""

    def __init__(self, folder: Path, state: _State):
        self.folder, self.state = folder, state
        self.done: list[_Done] = []  # in the epoch that is not finished
        self.journal = folder / JOURNAL

    @property
    def exist(self) -> bool:
        """Whether training has begun here."""
        return self.journal.exists()

    def part(self, p: int, version: int | None = None, deal: int | None = None) -> Path:
        """The file of a part; that which holds, unless another one is asked for."""
        version = self.state.versions[p] if version is None else version
        deal = self.state.deal if deal is None else deal
        return self.folder / f"part-{p}-{deal}-{version}.safetensors"

    def relations(self, version: int | None = None, deal: int | None = None) -> Path:
        """The file of the relations; that which holds, unless another one is asked for."""
        version = self.state.relations if version is None else version
        deal = self.state.deal if deal is None else deal
        return self.folder / f"relations-{deal}-{version}.safetensors"

    def best(self, epoch: int) -> Path:
        """The file of the best model, that of ``epoch``."""
        return self.folder / f"best.{epoch}.safetensors"

    def map(self, path: Path) -> Arrays:
        """The arrays in a file, which is read where they are looked at."""
        return map_tensors(path, FORMAT, VERSION, self.state.graph)[0]

    def create(self, path: Path, shapes: Any) -> TensorFile:
        """A new file for arrays of such shapes; who has mapped a former one keeps that."""
        header = {"format": FORMAT, "version": str(VERSION), "graph": self.state.graph}
        try:
            path.unlink(missing_ok=True)
            return TensorFile(shapes, header, path)
        except OSError as error:
            raise write_error(path, error) from error

    def write(self, path: Path, arrays: Arrays) -> Path:
        """Write a new file, which is not synced."""
        try:
            with self.create(path, shapes_of(arrays)) as file:
                for name, array in arrays.items():
                    file.write(name, array)
        except OSError as error:
            raise write_error(path, error) from error
        return path

    # -- the journal -----------------------------------------------------------------------------

    def open(self) -> None:
        """Read the journal, and remove files that it does not name."""
        lines = read_json_lines(self.journal, dict[str, Any])
        where = str(self.journal)
        state = converted(lines[0] if lines else None, _State, where)
        own = self.state
        if (state.format, state.version) != (own.format, own.version):
            raise RunError(f"{where} is no journal of this version of bilink; train the run again")
        for name in ("graph", "model", "dim", "parts"):
            if getattr(state, name) != getattr(own, name):
                raise RunError(f"{where} does not fit its run: it has another {name}")
        if len(state.versions) != state.parts or min(state.deal, state.progress.epoch) < 0:
            raise RunError(f"{where} is damaged: its first line makes no sense")
        self.state = state
        order = bucket_order(state.parts)
        for line in lines[1:]:
            found = converted(line, _Done, where)
            number = len(self.done)
            if found.bucket != number or set(found.parts) != set(order[number : number + 1][0]):
                raise RunError(f"{where} is damaged: its buckets are out of order")
            self._count(found)
        self.save(self.state, self.done)  # without a line that was cut short

    def save(self, state: _State, done: list[_Done]) -> None:
        """Replace the journal, and remove files that it does not name."""
        lines = [asdict(state), *map(asdict, done)]
        write_text(self.journal, "".join(json.dumps(line) + "\n" for line in lines))
        self.state, self.done = state, done
        self.clean()

    def commit(self, done: _Done, written: Sequence[Path]) -> None:
        """Make the files of a bucket those that hold."""
        old = [self.part(p) for p in done.parts] + [self.relations()]
        try:
            for path in written:
                sync_file(path)
            sync_folder(self.folder)
            append_text(self.journal, json.dumps(asdict(done)) + "\n", sync=True)
            self._count(done)
            for path in old:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise write_error(self.journal, error) from error

    def _count(self, done: _Done) -> None:
        """Take up a line of the journal."""
        versions = list(self.state.versions)
        for p, version in zip(done.parts, done.versions, strict=True):
            versions[p] = version
        self.state = replace(self.state, versions=versions, relations=done.relations)
        self.done.append(done)

    def clean(self) -> None:
        """Remove files of ours that do not hold."""
        holding = {self.part(p).name for p in range(len(self.state.versions))}
        holding |= {self.relations().name, JOURNAL, NOW}
        if self.state.best is not None:
            holding.add(self.best(self.state.best).name)
        try:
            for path in self.folder.iterdir():
                if OURS.fullmatch(path.name) and path.name not in holding:
                    path.unlink()
        except OSError as error:
            raise write_error(self.folder, error) from error


class PartsEngine:
    """Trains a graph bucket by bucket.

    The rows of two parts stand in one array, the first before ``_middle``, the second behind it, so
    that both together are the entities of a bucket, and either is read without moving the other.
    """

    def __init__(
        self, family: Family, dim: int, graph: Graph, config: Config, folder: Path, redeal: bool
    ):
        self.family, self.dim, self.triples = family, dim, graph.train
        self._graph, self._config, self._redeal = graph, config, redeal
        self.position: Position | None = None
        state = _State(graph.fingerprint, family.name, dim, config.parts)
        self.files = PartFiles(folder, state)
        self._order = bucket_order(config.parts)
        self._sizes = part_sizes(len(graph.entities), config.parts)
        self._middle = max(self._sizes)
        self._rows, self._shared = _arrays(family, dim, graph, config, 2 * self._middle)
        self._held: list[int | None] = [None, None]  # the parts before and behind the middle
        self._deal: Deal | None = None

    # -- from files and to files -----------------------------------------------------------------

    def start(self) -> None:
        """Deal random values into the first parts."""
        self._write_deal(0, self._initial_rows())

    def resume(self) -> None:
        """Go to where the journal says that training stood."""
        self.files.open()
        self._read_deal()
        self._forget()
        if self.files.done and len(self.files.done) < len(self._order):
            self._note_position()

    def assemble(self, path: Path) -> Model:
        """Write all rows in the order of their ids; the model that lies there."""
        deal, files, n = self._dealt, self.files, len(self._graph.entities)
        buffer, relations = self._rows["entities"], self._shared["relations"]
        self._held = [None, None]  # their memory is used
        shapes = {
            "entities": (buffer.dtype, (n, buffer.shape[1])),
            "relations": (relations.dtype, relations.shape),
        }
        with files.create(path, shapes) as file:
            for start in range(0, n, len(buffer)):
                of = slice(start, min(start + len(buffer), n))
                parts, rows = deal.part_of[of], deal.row_of[of]
                for p in range(len(self._sizes)):
                    here = np.flatnonzero(parts == p)
                    buffer[here] = files.map(files.part(p))["entities"][rows[here]]
                file.write("entities", buffer[: len(parts)], start)
            file.write("relations", relations)
        return self.model_in(path)

    def model_in(self, path: Path) -> Model:
        """The model in a file of all rows."""
        arrays = self.files.map(path)
        try:
            return Model(self.family, self.dim, arrays["entities"], arrays["relations"])
        except (KeyError, BilinkError) as error:
            raise RunError(f"{path} does not fit its run: {error}") from None

    @property
    def _dealt(self) -> Deal:
        assert self._deal is not None
        return self._deal

    def _initial_rows(self) -> Iterator[Arrays]:
        """The rows of all entities in order, and then, in place, those of the relations."""
        n, random = len(self._graph.entities), generator(self._config.seed, Stream.INITIAL)
        sizes = n, len(self._graph.relations)
        bounds = initial_bounds(self.family, self.dim, sizes, self._config)
        for start in range(0, n, self._middle):
            ids = np.arange(start, min(start + self._middle, n), dtype=np.int32)
            piece = {name: np.zeros_like(rows[: len(ids)]) for name, rows in self._rows.items()}
            piece["ids"] = ids
            fill_entities(piece["entities"], self._config, random, self.family, bounds[0])
            yield piece
        relations = self._shared["relations"]
        fill_relations(relations, self._config, random, self.family, bounds[1])

    def _write_deal(self, deal: int, pieces: Iterator[Arrays]) -> None:
        """Deal rows into new parts, a piece at a time, and go on with these."""
        n, files, row_shapes = len(self._graph.entities), self.files, shapes_of(self._rows)
        part_of = deal_entities(n, len(self._sizes), self._config.seed, deal)
        filled = [0] * len(self._sizes)
        paths = [files.part(p, 0, deal) for p in range(len(self._sizes))]
        try:
            with ExitStack() as stack:
                made = []
                for path, size in zip(paths, self._sizes, strict=True):
                    shapes = {
                        name: (dtype, (size, *shape[1:]))
                        for name, (dtype, shape) in row_shapes.items()
                    }
                    made.append(stack.enter_context(files.create(path, shapes)))
                for piece in pieces:
                    to = part_of[piece["ids"]]
                    for p, file in enumerate(made):
                        chosen = np.flatnonzero(to == p)
                        for name, array in piece.items():
                            file.write(name, array[chosen], filled[p])
                        filled[p] += len(chosen)
            paths.append(files.write(files.relations(0, deal), self._shared))
            for path in paths:
                sync_file(path)
            sync_folder(files.folder)
        except OSError as error:
            raise write_error(files.folder, error) from error
        state = replace(files.state, deal=deal, versions=[0] * len(self._sizes), relations=0)
        files.save(state, [])
        self._read_deal()
        self._held = [None, None]

    def _read_deal(self) -> None:
        """Which part each entity is in, as the files have it, and which bucket each triple."""
        n = len(self._graph.entities)
        part_of, row_of = np.full(n, -1, dtype=np.int16), np.empty(n, dtype=np.int32)
        for p, size in enumerate(self._sizes):
            ids = self._read(self.files.part(p), {"ids": np.empty(size, np.int32)})["ids"]
            if ids.min(initial=0) < 0 or ids.max(initial=0) >= n:
                raise RunError(f"{self.files.part(p)} is damaged: its ids are out of range")
            part_of[ids], row_of[ids] = p, np.arange(size)
        if (part_of < 0).any():
            raise RunError(f"{self.files.folder} is damaged: its parts lack entities")
        deal = len(self._sizes), self._config.seed, self.files.state.deal
        self._deal = Deal.of(self._graph, part_of, row_of, *deal)

    def _read(self, path: Path, into: Arrays) -> Arrays:
        """Fill arrays from a file."""
        found = self.files.map(path)
        for name, array in into.items():
            if name not in found or found[name].shape != array.shape:
                raise RunError(f"{path} does not fit its run: {name} is not there, or of no use")
            array[:] = found[name]
        return into

    def _forget(self) -> None:
        """Go back to the files: what is in memory is of a bucket that was not finished."""
        self._held = [None, None]
        self._read(self.files.relations(), self._shared)

    def _span(self, slot: int, p: int) -> slice:
        """Where the rows of part ``p`` are, before or behind the middle."""
        middle, size = self._middle, self._sizes[p]
        return slice(middle, middle + size) if slot else slice(middle - size, middle)

    def _rows_in(self, span: slice) -> Arrays:
        return {name: rows[span] for name, rows in self._rows.items()}

    # -- an epoch --------------------------------------------------------------------------------

    def run_epoch(self, epoch: int, factor: float = 1.0, pause: Pause | None = None) -> EpochTotals:
        """Train each bucket once, with ``factor`` on the step size.

        ``pause`` is asked within buckets; one that is not finished is run again from its start.
        """
        if self._redeal and self.files.state.deal != epoch:
            parts = range(len(self._sizes))
            self._write_deal(epoch, (self.files.map(self.files.part(p)) for p in parts))
        with ThreadPoolExecutor(1) as beside:
            committed: Future[None] | None = None
            try:
                for number in range(len(self.files.done), len(self._order)):
                    done, written = self._train(number, epoch, factor, pause, committed, beside)
                    if not math.isfinite(done.loss):
                        return EpochTotals(float("nan"), 0.0, 0)
                    committed = beside.submit(self.files.commit, done, written)
            except EpochPausedError:
                self._forget()
                self._note_position()
                raise
            if committed is not None:
                committed.result()
        self.position = None
        loss, violated, pairs = self._totals()
        return EpochTotals(loss / max(pairs, 1), violated / max(pairs, 1), int(pairs))

    def _train(
        self,
        number: int,
        epoch: int,
        factor: float,
        pause: Pause | None,
        committed: Future[None] | None,
        beside: ThreadPoolExecutor,
    ) -> tuple[_Done, list[Path]]:
        """Train a bucket; its files are written, and not synced."""
        started, files = time.perf_counter(), self.files
        first, second = self._load(self._order[number])
        span = slice(self._span(0, first).start, self._span(1, second).stop)
        state = {**self._rows_in(span), **self._shared}
        model = Model(self.family, self.dim, state["entities"], state["relations"])
        graph = self._dealt.bucket(number, first, second)
        config = replace(self._config, seed=bucket_seed(self._config.seed, epoch, number))
        engine = make_engine(model, graph, config, len(self._graph.entities))
        assert isinstance(engine, MarginEngine | SoftmaxEngine)
        engine.adopt(state)
        if committed is not None:
            committed.result()  # before anything is trained that it may not be lost with
        if number + 1 < len(self._order):
            (coming,) = set(self._order[number + 1]) - set(self._order[number])
            beside.submit(_read_ahead, files.part(coming))

        def share(of_bucket: float) -> bool:
            return pause is not None and pause((number + of_bucket) / len(self._order))

        totals = engine.run_epoch(epoch, factor, share)
        pair, versions = (first, second), files.state.versions
        new = versions[first] + 1, versions[second] + 1
        loss = totals.loss if model.is_finite() else math.nan
        sums = loss, totals.violated, totals.pairs
        seconds = round(time.perf_counter() - started, 6)
        done = _Done(number, pair, new, files.state.relations + 1, *sums, seconds)
        return done, self._write(done) if math.isfinite(loss) else []

    def _load(self, pair: tuple[int, int]) -> tuple[int, int]:
        """Bring two parts into memory; which one is before the middle, and which one behind it."""
        for p in pair:
            if p not in self._held:
                slot = 0 if self._held[0] not in pair else 1
                self._held[slot] = None
                self._read(self.files.part(p), self._rows_in(self._span(slot, p)))
                self._held[slot] = p
        first, second = self._held
        assert first is not None
        assert second is not None
        return first, second

    def _write(self, done: _Done) -> list[Path]:
        """Write the next versions of both parts and of the relations."""
        files, written = self.files, []
        for slot, (p, version) in enumerate(zip(done.parts, done.versions, strict=True)):
            rows = self._rows_in(self._span(slot, p))
            written.append(files.write(files.part(p, version), rows))
        return [*written, files.write(files.relations(done.relations), self._shared)]

    def _totals(self) -> tuple[float, float, float]:
        """Sums over the buckets that are done, of the loss, of what was violated, of pairs."""
        done = self.files.done
        loss = sum(bucket.loss * bucket.pairs for bucket in done)
        violated = sum(bucket.violated * bucket.pairs for bucket in done)
        return loss, violated, sum(bucket.pairs for bucket in done)

    def _note_position(self) -> None:
        done = self.files.done
        self.position = Position(
            total=len(self._order),
            done=np.array([len(done)]),
            totals=np.array([self._totals()]),
            seconds=np.array([sum(bucket.seconds for bucket in done)], dtype=np.float64),
        )


class _InParts:
    """Keeps what is trained in parts: its journal, and the best model in a file of its own."""

    def __init__(self, engine: PartsEngine):
        self.engine, self._files = engine, engine.files
        self._progress = Progress()
        self._best: int | None = None

    @property
    def saved(self) -> Path | None:
        """Where the last finished bucket is."""
        return self._files.folder if self._files.exist else None

    def restore(self) -> Progress:
        """Go on from the journal; else deal random values."""
        if self._files.exist:
            self.engine.resume()
        else:
            self.engine.start()
        self._best = self._files.state.best
        self._progress = replace(self._files.state.progress)
        return self._progress

    @property
    def current(self) -> Model:
        """The model as it is now, in a file."""
        return self.engine.assemble(self._files.folder / NOW)

    @property
    def best(self) -> Model | None:
        """The best model so far, in a file."""
        return None if self._best is None else self.engine.model_in(self._files.best(self._best))

    def keep(self) -> None:
        """Keep the file of the model that was just validated."""
        self._best = self._progress.epoch
        path = self._files.folder / NOW
        try:
            sync_file(path)
            os.replace(path, self._files.best(self._best))
        except OSError as error:
            raise write_error(path, error) from error

    @property
    def is_due(self) -> bool:
        """Never: each bucket is saved when it is done."""
        return False

    def save(self, progress: Progress, *, now: bool = False) -> None:
        """Note the progress in the journal."""
        files = self._files
        state = replace(files.state, best=self._best, progress=replace(progress))
        files.save(state, files.done if self.engine.position else [])


def _arrays(
    family: Family, dim: int, graph: Graph, config: Config, entities: int
) -> tuple[Arrays, Arrays]:
    """What is kept of so many entities, a row for each, and what is kept of all relations."""
    names = Vocabulary("entity", ("", ""))
    none = graph.train[:0]
    tiny = Graph("", names, graph.relations, np.array([[0, 0, 1]]), none, none)
    model = Model.empty(family.name, dim, 2, len(graph.relations))
    rows = {"ids": np.empty(entities, np.int32)}
    rows["entities"] = np.zeros((entities, model.entities.shape[1]), np.float32)
    shared = {"relations": model.relations}
    for name, array in make_engine(model, tiny, config).state.items():
        if name.startswith("entity_"):
            rows[name] = np.zeros((entities, *array.shape[1:]), array.dtype)
        else:
            shared[name] = array.copy()
    return rows, shared


def _read_ahead(path: Path) -> None:
    """Read a file for nothing, so that the system has it in memory when it is needed."""
    with suppress(OSError), open(path, "rb") as file:
        while file.read(_CHUNK):
            pass
