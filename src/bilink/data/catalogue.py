"""Graphs that are known by name: where they come from, and checksums of their files."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from bilink._files import user_cache
from bilink._text import closest
from bilink.data.folders import split_files
from bilink.data.graph import SPLITS, Split
from bilink.data.text import read_bytes
from bilink.errors import DataError

if TYPE_CHECKING:
    from bilink.data.download import Progress


@dataclass(frozen=True)
class Entry:
    """A graph of the catalogue; sizes count entities and relations over all splits."""

    name: str
    about: str
    entities: int
    relations: int
    triples: tuple[int, int, int]  # train, valid, test
    sha256: tuple[str, str, str] | None  # of the uncompressed files, lines ending in LF
    urls: tuple[str, ...] = ()  # archives that hold the splits; the first that works is used
    licence: str = "not stated"


CONVE = "https://github.com/TimDettmers/ConvE/raw/master/"
EVEREST = "https://everest.hds.utc.fr/lib/exe/fetch.php?media=en:"
MANNHEIM = "https://web.informatik.uni-mannheim.de/pi1/kge-datasets/"

ENTRIES: Mapping[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            "atlas",
            "countries and their cities, languages and currencies; comes with bilink",
            2_405,
            14,
            (9_066, 1_128, 1_127),
            None,
        ),
        Entry(
            "wn18",
            "WordNet, the original benchmark; test triples leak through inverse relations",
            40_943,
            18,
            (141_442, 5_000, 5_000),
            (
                "24c9b02dc57d3ae8ca8467ce355995edee7be8eddc3bd070ee34d3c6fc3c95eb",
                "13347bfb5e17d1cae003e0bfe29b4716d3ab748e8cfb6af997138d37da3a51dc",
                "d22c19d176d4ba6a6f0d0c6bfce39ab3c16e3b20e1df6f9efe0d9ed86542fa10",
            ),
            (EVEREST + "wordnet-mlj12.tar.gz", MANNHEIM + "wn18.tar.gz"),
            "WordNet 3.0 licence",
        ),
        Entry(
            "fb15k",
            "Freebase, the original benchmark; test triples leak through inverse relations",
            14_951,
            1_345,
            (483_142, 50_000, 59_071),
            (
                "f9cdfd2685f6483bd3a499d433919b15d62f0715c6cf18b2ca30c2aa5c47a704",
                "471929cde9cf74b1caa8348c2b601c8010d6b2f2a56bae49b4ebfd14c9bce855",
                "5b60b4de325482c3368e22d0b7452d465b09a610fea0ce3768d8b1e8b5a7e42a",
            ),
            (EVEREST + "fb15k.tgz", MANNHEIM + "fb15k.tar.gz"),
            "CC BY 2.5",
        ),
        Entry(
            "wn18rr",
            "WN18 without inverse relations",
            40_943,
            11,
            (86_835, 3_034, 3_134),
            (
                "038612e783c215ee5f3ca9fbfca27b8d0739be1028fe4ee7c174aecf0b83d5df",
                "453ce7202afa58094a04d2b1560ee2b02660f1c260b32ce6651c8ccedd1028ab",
                "0383bceaaa1096cf3c03ec021ed0048068e2355dbfc0239b292cefdac821cec5",
            ),
            (CONVE + "WN18RR.tar.gz", MANNHEIM + "wnrr.tar.gz"),
            "WordNet 3.0 licence",
        ),
        Entry(
            "fb15k-237",
            "FB15k without inverse and duplicate relations",
            14_541,
            237,
            (272_115, 17_535, 20_466),
            (
                "61099230e4439f90885ca9767739e31e8e32f54736fa1c35952b27997bc7c08a",
                "749cbe9d923bac7b9354da5614ecfed2e0220256d442c3e04a6b303db1f273d9",
                "e2e35e8e6113de220140b6f44dc71a5207b0fc6872d575e874aefe13259b655b",
            ),
            (CONVE + "FB15k-237.tar.gz", MANNHEIM + "fb15k-237.tar.gz"),
            "not stated; a subset of FB15k (CC BY 2.5)",
        ),
        Entry(
            "nations",
            "relations between 14 countries",
            14,
            55,
            (1_592, 199, 201),
            (
                "0830fa9da8e5bba2ccdaa45b7bdc9130451ba66b09ff2708f35fccaf82473e57",
                "2b337a62e51a2f45c283eac98a70d21b7e0e102136be1539b2a52c652a7b0530",
                "3971085165b47b6aeaec68058c6d8d98b3005e929db81268410b95ae4db770ab",
            ),
            (CONVE + "nations.tar.gz",),
            "not stated",
        ),
        Entry(
            "kinship",
            "kinship terms among 104 people",
            104,
            25,
            (8_544, 1_068, 1_074),
            (
                "738612111a6acf0e39662bde24c7e72a4d1edf20931beea077da367dda689731",
                "c56f8630a583178b1e569f11a64aa535ae1ce0b0912d8b1e24716be2b37f04da",
                "05e5733265761d55be9c05bfaff5a8d0808df46f9c1e9d66cc3f2fe114e43d88",
            ),
            (CONVE + "kinship.tar.gz",),
            "not stated",
        ),
        Entry(
            "umls",
            "relations between biomedical concepts",
            135,
            46,
            (5_216, 652, 661),
            (
                "873ef4925516b83e7f6f8cc02b4be51d848828710a7f65a956f0ac4a9e452f35",
                "025c98f8a4891e2a6582ec5b40ee0d904031edad9c52554522f4b7904820c98e",
                "a7eb529a3d2810fcc96341ccc97c625a5e202f8389673aa6bd317eeebbb79014",
            ),
            (CONVE + "umls.tar.gz",),
            "not stated",
        ),
        Entry(
            "hsgene",
            "human genes, their annotations and papers: for tests of scale, not a benchmark",
            378_510,
            13,
            (1_902_052, 10_000, 10_000),
            (
                "4204681f6a200923c647eea0b580d2237f9ab8d5e1ae6dd65a795e03683431a7",
                "14af1beb0bc0b7b91279a0a0afef05266a57aae912986912d9ff6fd429af52c2",
                "b501f4737b2e19f111eb650b7aef007aa19d51ba45a38a1d729b3c263e89e19c",
            ),
            (),
            "Artistic-2.0",
        ),
    )
}


def entry(name: str) -> Entry:
    """The entry called ``name``, whatever its case."""
    if found := ENTRIES.get(name.casefold()):
        return found
    close = closest(name, list(ENTRIES))
    raise DataError(
        f"{name!r} is neither a file or folder nor a graph of the catalogue"
        + (f"; did you mean {' or '.join(close)}?" if close else f" ({', '.join(ENTRIES)})")
    )


def resolve(name: str) -> Path:
    """The folder of a graph: embedded, in ``$BILINK_DATA``, or in the cache of downloads."""
    known = entry(name)
    if known.name == "atlas":
        return _embedded(known.name)
    for folder in _places(known):
        if folder.is_dir():
            return folder
    if not known.urls:
        raise DataError(
            f"{known.name} cannot be downloaded; put it into a folder of that name and set "
            "BILINK_DATA to the folder that holds it"
        )
    raise DataError(
        f"{known.name} is not on this machine; fetch it with: bilink data get {known.name}"
    )


def is_here(name: str) -> bool:
    """Whether the graph can be loaded without a download."""
    known = entry(name)
    return known.name == "atlas" or any(folder.is_dir() for folder in _places(known))


def verify(name: str) -> Path:
    """The folder of a graph on this machine, after its checksums were compared."""
    known, folder = entry(name), resolve(name)
    if known.sha256 is None:
        return folder
    files = split_files(folder)
    for split, expected in zip(SPLITS, known.sha256, strict=True):
        if split not in files:
            raise DataError(f"{folder}: the {split} split of {known.name} is missing")
        found = hashlib.sha256(read_bytes(files[split]).replace(b"\r\n", b"\n")).hexdigest()
        if found != expected:
            raise DataError(
                f"{files[split]}: this is not the published {split} split of {known.name}: its "
                f"sha256 is {found}, expected {expected}. Remove the folder and fetch it again."
            )
    return folder


def get(name: str, *, progress: "Progress | None" = None) -> Path:
    """The verified folder of a graph, which is downloaded unless it is on this machine."""
    # Imported here, because the network modules of Python take longer to load than all of data.
    from bilink.data.download import extract, fetch, forget

    known = entry(name)
    if is_here(name):
        return verify(name)
    if not known.urls or known.sha256 is None:
        return resolve(name)  # which says what to do instead
    expected = dict(zip(SPLITS, known.sha256, strict=True))
    datasets = user_cache() / "datasets"
    datasets.mkdir(parents=True, exist_ok=True)
    reasons = []
    for url in known.urls:
        archive = datasets / f"{known.name}.part"
        try:
            fetch(url, archive, progress)
            splits = extract(archive, expected)
        except DataError as error:
            reasons.append(str(error))
            continue
        folder = _install(splits, datasets / known.name)
        forget(archive)
        return folder
    raise DataError(f"{known.name} could not be downloaded: " + "; ".join(reasons))


def _install(splits: Mapping[Split, bytes], folder: Path) -> Path:
    """Write all files to a temporary folder, then rename it, so that no graph is incomplete."""
    temporary = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
    try:
        for split, data in splits.items():
            (temporary / f"{split}.txt").write_bytes(data)
        temporary.chmod(0o755)
        temporary.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another process was faster, with the same bytes
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _places(known: Entry) -> list[Path]:
    data = os.environ.get("BILINK_DATA")
    return [*([Path(data) / known.name] if data else []), (user_cache() / "datasets") / known.name]


def _embedded_folder(name: str) -> Path:
    return Path(str(resources.files("bilink.data") / name))


def _embedded(name: str) -> Path:
    folder = _embedded_folder(name)
    if not folder.is_dir():
        raise DataError(f"the embedded graph {name} is missing from this installation of bilink")
    return folder
