"""Old-style JPEG (compression 6): streams, parts of streams, tables in tags, against libtiff."""

import io
import struct
from dataclasses import dataclass, field

import imagecodecs
import numpy as np
import pytest
from PIL import Image

import jnrrdz
from jnrrdz.errors import MalformedError
from tests.readers import by_gdal
from tests.writers import tiff_of, tiff_tags

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
HEIGHT, WIDTH, ROWS = 48, 64, 16
KINDS = {"grey": (1, 1), "colours": (3, 1), "subsampled": (3, 2)}
"""Samples, and columns and rows that share a sample of chroma."""

PLACE = (60000, 60001)
"""Private tags that list where a JPEG is."""


def picture(samples):
    """Return smooth pixels."""
    y, x, _ = np.mgrid[:HEIGHT, :WIDTH, :1]
    waves = 128 + 100 * np.sin(x / 9 + np.arange(samples)) * np.cos(y / 7)
    return waves.astype("u1").squeeze()


@dataclass
class Jpeg:
    """A JPEG of Pillow's, restarted every so many rows or never."""

    samples: int
    shared: int
    rows: int = HEIGHT
    data: bytes = b""
    scan: int = 0
    """Offset of the first scan's data."""

    parts: dict[int, list[bytes]] = field(default_factory=dict)
    """Contents of the marker segments."""

    def __post_init__(self):
        file = io.BytesIO()
        restarts = self.rows // (8 * self.shared) if self.rows < HEIGHT else 0
        options = {"subsampling": 2 * (self.shared - 1), "restart_marker_rows": restarts}
        Image.fromarray(picture(self.samples)).save(file, "JPEG", quality=90, **options)
        self.data = file.getvalue()
        marker, at = 0, 2
        while marker != 0xDA:
            marker, length = self.data[at + 1], *struct.unpack_from(">H", self.data, at + 2)
            contents = self.data[at + 4 : at + 2 + length]
            self.parts.setdefault(marker, []).append(contents)
            at += 2 + length
        self.scan = at

    @property
    def strips(self):
        """Start and stop of the data of each strip, restart markers between them left out."""
        data = self.data
        found = [at for at in range(self.scan, len(data)) if data[at] == 0xFF and data[at + 1] & 0xF8 == 0xD0]
        starts = [self.scan, *(at + 2 for at in found)]
        return list(zip(starts, [*found, len(data)], strict=True))

    def tables(self):
        """Return the tables of each component, by their tags."""
        quantisation, huffman = {}, {}
        for contents in self.parts[0xDB]:
            for at in range(0, len(contents), 65):
                quantisation[contents[at]] = contents[at + 1 : at + 65]
        for contents in self.parts[0xC4]:
            at = 0
            while at < len(contents):
                stop = at + 17 + sum(contents[at + 1 : at + 17])
                huffman[contents[at]] = contents[at + 1 : stop]
                at = stop
        numbers = [min(sample, 1) for sample in range(self.samples)]
        return {
            519: [quantisation[number] for number in numbers],
            520: [huffman[number] for number in numbers],
            521: [huffman[16 | number] for number in numbers],
        }


def written(path, jpeg, strips, **options):
    """Write a TIFF of strips of a JPEG, without some tags, some of the JPEG's bytes kept.

    It has a stream's start and length, or else tables in tags.
    """
    stream, kept = options.get("stream"), options.get("kept")
    kind = {"samples": jpeg.samples, "photometric": 6 if jpeg.samples == 3 else 1}
    tags = tiff_tags(WIDTH, HEIGHT, 8, 6, rows=jpeg.rows, **kind)
    if jpeg.samples == 3:
        tags[530] = (3, [jpeg.shared] * 2)
    tags[512] = (3, [1])
    tables = {} if stream else jpeg.tables()
    before = b"".join(table for entries in tables.values() for table in entries)
    data = before + jpeg.data[:kept]
    base = 0
    for _ in range(2):  # with tags of the right lengths, then of the right offsets
        at = base
        for tag, entries in tables.items():
            offsets = []
            for table in entries:
                offsets.append(at)
                at += len(table)
            tags[tag] = (4, offsets)
        tags[273] = (4, [at + start for start, _ in strips])
        tags[279] = (4, [stop - start for start, stop in strips])
        if stream:
            tags[513] = (4, [at + stream[0]])
            tags |= {514: (4, [stream[1]])} if stream[1] else {}
        for tag in options.get("without", ()):
            tags.pop(tag, None)
        base = len(tiff_of([data], tags, lists=PLACE)) - len(data)
    path.write_bytes(tiff_of([data], tags, lists=PLACE))
    return path


def check(path, samples):
    """Check pixels against libtiff's, and GDAL's where it reads them."""
    found = jnrrdz.open_group(path)["data"][...]
    theirs = imagecodecs.tiff_decode(path.read_bytes())
    np.testing.assert_array_equal(np.moveaxis(found, 0, -1) if samples == 3 else found, theirs)
    if samples == 3:
        np.testing.assert_array_equal(found, by_gdal(path))
    assert np.ptp(found) > 150


CASES = ["whole", "its data", "short", "data short", "no length", "no samples", "no bits"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_one_strip_of_a_stream(tmp_path, case, kind):
    jpeg = Jpeg(*KINDS[kind])
    size = len(jpeg.data)
    start = jpeg.scan if "data" in case else 0
    stop = size - 40 if "short" in case or case == "no length" else size
    without = {"no samples": (277,), "no bits": (258, 277)}.get(case, ())
    stream = (0, None if case == "no length" else size)
    path = tmp_path / "a.tif"
    written(path, jpeg, [(start, stop)], stream=stream, without=without)
    check(path, jpeg.samples)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", ["bare", "with restarts", "with header", "no samples"])
def test_several_strips_of_a_stream(tmp_path, case, kind):
    jpeg = Jpeg(*KINDS[kind], rows=ROWS)
    strips = jpeg.strips
    assert len(strips) == HEIGHT // ROWS
    if case != "bare":
        stops = [start for start, _ in strips[1:]] + [len(jpeg.data)]
        strips = [(start, stop) for (start, _), stop in zip(strips, stops, strict=True)]
    if case == "with header":
        strips[0] = (0, strips[0][1])
    without = (277,) if case == "no samples" else ()
    path = tmp_path / "a.tif"
    written(path, jpeg, strips, stream=(0, len(jpeg.data)), without=without)
    check(path, jpeg.samples)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [HEIGHT, ROWS])
@pytest.mark.parametrize("end", [0, 2])
def test_tables_in_tags(tmp_path, end, rows, kind):
    """The last strip may lack the marker of the end."""
    jpeg = Jpeg(*KINDS[kind], rows=rows)
    strips = jpeg.strips
    strips[-1] = (strips[-1][0], strips[-1][1] - end)
    path = written(tmp_path / "a.tif", jpeg, strips)
    check(path, jpeg.samples)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", ["file", "file, its data", "length", "tables"])
def test_a_stream_that_is_cut_is_refused(tmp_path, case, kind):
    """libtiff gives grey rows."""
    jpeg = Jpeg(*KINDS[kind])
    size = len(jpeg.data)
    for cut in (3, 10, 60, 150, (size - jpeg.scan) // 2):
        path = tmp_path / f"{cut}.tif"
        start = jpeg.scan if "data" in case or case == "tables" else 0
        stop = size if case.startswith("file") else size - cut
        kept = size - cut if case.startswith("file") else None
        stream = None if case == "tables" else (0, stop)
        written(path, jpeg, [(start, stop)], stream=stream, kept=kept)
        with pytest.raises(MalformedError, match="end before the chunk's last pixels"):
            jnrrdz.open_group(path)["data"][...]
