"""Every level of every array of a corpus of JPEG 2000 files, against the reduction of glymur or of imagecodecs.

Runs where the corpus stands beside that of JNRRDZ_CORPUS.  glymur reads through libopenjp2, imagecodecs brings
an OpenJPEG of its own: whichever is there judges, both where both are.
"""

import hashlib
import json
import os
import re
import warnings
from pathlib import Path

import imagecodecs
import numpy as np
import pytest

import jnrrdz
from jnrrdz.errors import JnrrdzError, MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000 import openjpeg as openjp2
from tests.readers import has_openjp2

CORPUS = Path(os.environ.get("JNRRDZ_CORPUS", "/nowhere")).parent / "jpeg2000"
FILES = sorted(path for path in CORPUS.rglob("*.j*") if path.suffix in {".jp2", ".j2k", ".j2c", ".jhc", ".jph"})
LARGEST = 4 << 20
"""Bytes of a file that this has time for."""

ROUNDED = 1e-4
"""The share of samples that may be rounded otherwise by glymur's library than by that of imagecodecs."""

UNREADABLE = (RuntimeError, NotImplementedError, ValueError, IndexError, TypeError, OSError, ZeroDivisionError)
"""What the judges raise at files that they do not read."""

ALONE = {
    # GDAL reads it, cut to 8 bits; neither judge puts 1, 8 and 23 bits into one array
    "jpeg2000_float32_ieee754_split_reversible.jp2": [f"/{level}" for level in range(6)],
    # the first tile-part's number is wrong
    "nonregression_451.pdf.SIGSEGV.ce9.3723.jp2": [f"/{level}" for level in range(6)],
    # tiles of 37 samples, of which some have none at these levels: only tile by tile can they be decoded
    "JitcJpeg2000_p1_05.j2k": ["/5", "/6"],
}
"""Levels that no judge reads."""

WITHOUT_END = {"jpeg2000_rgb16_ecwsdk.jp2"}
"""Files that no judge reads without the EOC that they lack."""

needs_corpus = pytest.mark.skipif(not FILES, reason="no corpus of JPEG 2000 beside JNRRDZ_CORPUS")
pytestmark = pytest.mark.filterwarnings("ignore")


class Judge:
    """The components of a file at each level, as independent readers have them."""

    def __init__(self, path, tmp_path):
        self.whole = path.read_bytes()
        self.bare = self.whole[self.whole.find(b"\xff\x4f\xff\x51") :]
        if path.name in WITHOUT_END:
            self.bare += b"\xff\xd9"
        self.path = tmp_path / "bare.j2k"
        self.path.write_bytes(self.bare)
        at = self.bare.find(b"\xff\x52")
        self.reversible = self.bare[at + 13] == 1

    def opinions(self, level, numbers):
        """Yield the components of these numbers, from each reader that reads them."""
        if has_openjp2():
            import glymur  # noqa: PLC0415  of no use without the library

            try:
                bands = glymur.Jp2k(self.path).read_bands(rlevel=level)
            except (*UNREADABLE, glymur.lib.openjp2.OpenJPEGLibraryError, glymur.jp2box.InvalidJp2kError):
                bands = None
            if isinstance(bands, np.ndarray):  # components that are alike come as one array
                bands = list(np.moveaxis(np.atleast_3d(bands), -1, 0))
            if bands is not None:
                yield "glymur", [bands[one] for one in numbers or range(len(bands))]
        if not numbers:
            try:
                pixels = imagecodecs.jpeg2k_decode(self.bare, skipres=level, planar=True)
            except UNREADABLE:
                return
            yield "imagecodecs", pixels if pixels.ndim == 3 else pixels[np.newaxis]

    def picture(self, level):
        """Return the colours that imagecodecs shows."""
        return imagecodecs.jpeg2k_decode(self.whole, skipres=level, planar=True)


def arrays_of(group):
    """Yield name, level, component numbers (none for all) and array of what a file became."""
    for path, array in sorted(group.members(max_depth=None)):
        *parts, last = path.split("/")
        if last != "data":
            continue
        level = int(parts.pop()) if parts and parts[-1].isdigit() else 0
        name = parts[0] if parts else ""
        ends = [int(one) for one in re.findall(r"\d+", name)]
        assert re.fullmatch(r"|composite|component_\d+|components_\d+_\d+", name), name
        yield name, level, list(range(ends[0], ends[-1] + 1)) if ends else [], array


def repeated(bands, shape):
    """Components repeated to the grid of the finest."""
    found = []
    for band in bands:
        steps = [round(whole / part) for whole, part in zip(shape, band.shape, strict=True)]
        found.append(np.kron(band, np.ones(steps, band.dtype))[: shape[0], : shape[1]])
    return found


def agrees(plane, expected, *, is_exact):
    """Compare samples; two builds of OpenJPEG round a few of an irreversible wavelet's differently, by one."""
    if is_exact:
        np.testing.assert_array_equal(plane, expected)
        return
    apart = np.abs(plane.astype(np.int64) - expected)
    assert apart.max(initial=0) <= 1
    assert np.count_nonzero(apart) <= ROUNDED * apart.size


def check(judge, name, level, numbers, array):
    """Compare an array with every opinion; return how many there were."""
    pixels = array[...]
    planes = pixels if pixels.ndim == 3 else pixels[np.newaxis]
    if "converted_from" in array.attrs:
        np.testing.assert_array_equal(planes, judge.picture(level))
        return 1
    count = 0
    for who, bands in judge.opinions(level, numbers):
        if name == "composite" and who == "imagecodecs":
            continue
        expected = repeated(bands, planes.shape[1:]) if name == "composite" else bands
        assert len(expected) == len(planes)
        for plane, band in zip(planes, expected, strict=True):
            # at odd origins OpenJPEG gives a row or column too many
            assert all(0 <= more - own <= 1 for more, own in zip(band.shape, plane.shape, strict=True))
            agrees(plane, band[: plane.shape[0], : plane.shape[1]], is_exact=who == "imagecodecs" or judge.reversible)
        count += 1
    return count


@needs_corpus
@pytest.mark.parametrize("path", [path for path in FILES if path.stat().st_size < LARGEST], ids=lambda path: path.name)
def test_every_level_of_a_file_is_the_decoders_own(path, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            jnrrdz.index(str(path), tmp_path / "refs.json")
        except JnrrdzError:
            return  # that readable files are not refused is shown by the conformance run
    judge, alone = Judge(path, tmp_path), []
    for name, level, numbers, array in arrays_of(jnrrdz.open_group(tmp_path / "refs.json")):
        try:
            if not check(judge, name, level, numbers, array):
                alone.append(f"{name}/{level}")
        except UnsupportedError as error:
            assert "libopenjp2" in str(error)  # noqa: PT017  what else is refused has to be refused at indexing
            pytest.skip(openjp2.INSTALL)
        except MalformedError:
            # a chunk is refused where nobody reads it
            assert not [who for who, _ in judge.opinions(level, numbers)]
    assert alone == ALONE.get(path.name, [])


PLANES = [
    "JitcJpeg2000_p1_03.j2k",
    "JitcJpeg2000_p1_07.j2k",
    "conformance_a6_mono_colr.j2c",
    "nonregression_issue397.jp2",
]
"""Files whose components differ in size: the conformance run cannot find all of a reference's planes in one array."""


def digest(plane):
    """The digest of a plane's values as the corpus's table has it."""
    head = f"i{plane.shape}".encode()
    return hashlib.sha256(head + plane.astype("<i8").tobytes()).hexdigest()[:32]


@needs_corpus
@pytest.mark.skipif(not has_openjp2(), reason=openjp2.INSTALL)
@pytest.mark.parametrize("name", PLANES)
def test_components_of_several_sizes_are_together_the_planes_of_the_reference(name, tmp_path):
    rows = map(json.loads, (CORPUS / "expected.jsonl").read_text(encoding="utf-8").splitlines())
    row = next(row for row in rows if row["file"].endswith(name))
    jnrrdz.index(str(CORPUS / row["file"]), tmp_path / "refs.json", overviews=False)
    planes = {}
    for group, _, numbers, array in arrays_of(jnrrdz.open_group(tmp_path / "refs.json")):
        if group != "composite":
            pixels = array[...]
            planes |= dict(zip(numbers, pixels if pixels.ndim == 3 else [pixels], strict=True))
    assert [digest(planes[number]) for number in range(len(planes))] in row["images"][0]
