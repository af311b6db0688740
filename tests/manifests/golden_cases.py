"""Manifests that are the same bytes from commit to commit: what each is made of, and what makes it.

The sources were written once by other software and are committed (`tests/fuzz/corpus`
and folders called `golden`). After a change that alters manifests on purpose, run
`python -m tests.manifests.golden_cases`: the commit then shows the difference, and
CHANGELOG.md names it.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import jnrrdz
from tests.fuzz.targets import BREAK, CORPUS

TESTS = Path(__file__).parents[1]
WRITTEN = Path(__file__).parent / "golden" / "written"
OSML = TESTS / "codecs" / "golden" / "osml"
SOURCES = Path(__file__).parent / "golden" / "sources"
MODIFIED = 1_600_000_000
"""The time of last change of each source, which a manifest records."""


def put_file(source: Path, folder: Path) -> Path:
    """Copy a source to a folder."""
    path = folder / source.name
    shutil.copyfile(source, path)
    os.utime(path, (MODIFIED, MODIFIED))
    return path


def put_n5(source: Path, folder: Path) -> Path:
    """Write a container of one block: the corpus has attributes and block in one file."""
    attributes, _, block = source.read_bytes().partition(BREAK)
    container = folder / f"{source.stem}.n5"
    files = {
        "attributes.json": b'{"n5":"2.0.0"}',
        "v/attributes.json": attributes,
        "v/0/0": block,
    }
    for name, data in files.items():
        path = container / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (MODIFIED, MODIFIED))
    return container


def put_next_to(other: Path) -> Callable[[Path, Path], Path]:
    """Return a function that copies references, and the file that they refer to."""

    def put(source: Path, folder: Path) -> Path:
        put_file(other, folder)
        return put_file(source, folder)

    return put


def index(path: Path, out: Path, **options: object) -> None:
    jnrrdz.index(path, out, relative=True, **options)


def convert(path: Path, out: Path, **options: object) -> None:
    jnrrdz.convert(path, out, relative=True, **options)


def days(path: Path) -> list[Path]:
    """Return two copies of a source with days in their names."""
    paths = [path.with_name(f"d_{day}{path.suffix}") for day in (20200101, 20200102)]
    for each in paths:
        shutil.copyfile(path, each)
        os.utime(each, (MODIFIED, MODIFIED))
    return paths


def merge(path: Path, out: Path) -> None:
    axis = {"concat_dim": "time", "coord_from": r"(\d{8})"}
    jnrrdz.merge(days(path), out, relative=True, **axis)


def cube(path: Path, out: Path) -> None:
    jnrrdz.cube(days(path), out, relative=True, time_from=r"(\d{8})")


@dataclass(frozen=True)
class Golden:
    """A manifest that is pinned: its source, and what writes it."""

    name: str
    source: Path
    make: Callable[..., None] = index
    put: Callable[[Path, Path], Path] = put_file
    options: dict[str, object] = field(default_factory=dict)

    def write(self, folder: Path, form: str = "json") -> Path:
        """Write the manifest into a folder, and return its path."""
        path = self.put(self.source, folder)
        out = folder / f"refs.{form}"
        self.make(path, out, **self.options)
        return out


def pinned_text(manifest: Path) -> str:
    """Return a manifest without what is not of its source.

    The version is that of the package, and PROJ writes the text of a CRS.
    """
    text = manifest.read_text(encoding="utf-8")
    text = text.replace(jnrrdz.__version__, "VERSION")
    return re.sub(r'(crs_wkt\\*":\\*").*?(\\*",\\*"semi_major)', r"\1WKT\2", text)


def of_corpus(path: str, **options: object) -> Golden:
    """Return the case of a file of the corpus."""
    source = CORPUS / path
    words = [source.parent.name, source.stem, *map(str, options.values())]
    put = put_n5 if source.parent.name == "n5" else put_file
    return Golden("-".join(words), source, put=put, options=options)


PLACE = CORPUS / "tiff" / "place.tif"
CASES = [
    of_corpus("tiff/place.tif"),
    of_corpus("tiff/place.tif", codecs="proposal"),
    of_corpus("tiff/deflate.tif"),
    of_corpus("tiff/deflate.tif", codecs="standard"),
    of_corpus("tiff/float.tif"),
    of_corpus("tiff/planes.tif"),
    of_corpus("tiff/jpeg.tif"),
    of_corpus("tiff/twelve-bits.tif"),
    of_corpus("tiff/ome.tif"),
    of_corpus("tiff/imagej.tif"),
    of_corpus("jpeg2000/gdal.jp2"),
    of_corpus("jpeg2000/tiles.j2k"),
    Golden(
        "jpeg2000-windows",
        SOURCES / "precincts.j2k",
        options={"precinct_windows": "always"},
    ),
    of_corpus("nitf/plain.ntf"),
    of_corpus("nitf/blocks.ntf"),
    of_corpus("nitf/jpeg.ntf"),
    of_corpus("nitf/jpeg2000.ntf"),
    of_corpus("n5/raw.bin"),
    of_corpus("n5/gzip.bin"),
    of_corpus("n5/blosc.bin", chain="offset"),
    of_corpus("nrrd/raw.nrrd"),
    of_corpus("nrrd/gzip.nrrd"),
    of_corpus("jnrrd/plain.jnrrd"),
    of_corpus("jnrrd/tiles.jnrrd"),
    Golden("hdf5", SOURCES / "chunks.h5"),
    Golden("netcdf3", SOURCES / "packed.nc"),
    Golden("fits", SOURCES / "image.fits"),
    Golden(
        "osml-tiff",
        OSML / "u2_lzw_predictor2_tiles.json",
        convert,
        put_next_to(OSML / "u2_lzw_predictor2_tiles.tif"),
    ),
    Golden(
        "osml-scattered",
        OSML / "scattered.json",
        convert,
        put_next_to(OSML / "scattered.j2k"),
    ),
    Golden("merge", PLACE, merge),
    Golden("cube", PLACE, cube),
]


def main() -> None:
    """Write every pinned manifest again."""
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            text = pinned_text(case.write(Path(folder)))
            (WRITTEN / f"{case.name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
