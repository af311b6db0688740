"""Windows of every file of a corpus that has any, at every level, against the same tiles decoded whole.

Runs where the corpora of JPEG 2000 and of NITF stand beside that of JNRRDZ_CORPUS.  Windows are cut smaller
than a scan would, wherever precincts are, so that more files have some.
"""

import os
from pathlib import Path

import numpy as np
import pytest

import jnrrdz
from jnrrdz.errors import JnrrdzError
from jnrrdz.formats.jpeg2000 import windows
from jnrrdz.formats.jpeg2000.codecs import JPEG2000_WINDOW, Jpeg2000Config, Jpeg2000WindowConfig
from jnrrdz.formats.jpeg2000.decode import Jpeg2000Decoder
from jnrrdz.formats.jpeg2000.decode_window import WindowedDecoder

CORPORA = [Path(os.environ.get("JNRRDZ_CORPUS", "/nowhere")).parent / name for name in ("jpeg2000", "nitf")]
SUFFIXES = {".jp2", ".j2k", ".j2c", ".ntf", ".nitf", ".nsf"}
FILES = sorted(path for root in CORPORA for path in root.rglob("*") if path.suffix.lower() in SUFFIXES)
LARGEST, MOST, SIDE = 1_000_000, 2_500_000, 100
"""Bytes of a file and samples of an array that this has time for; samples of a window's side."""
SOME = 9
"""Windows of an array that are looked at, spread over it."""
FEWEST = 40
"""Files with windows that the corpora have at the least."""

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.skipif(not FILES, reason="no corpus")]


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    def chunk(self, level):
        siz, one = self.codestream.siz, self.codestream.siz.components[0]
        return windows.side(siz.y, one.dy << level, SIDE), windows.side(siz.x, one.dx << level, SIDE)

    monkeypatch.setattr(windows, "SIDE", SIDE)
    monkeypatch.setattr(windows.Windows, "_chunk", chunk)


def arrays(path, wish):
    try:
        return dict(jnrrdz.scan(str(path), precinct_windows=wish).arrays())
    except JnrrdzError:
        return {}


def chunk_of(data, array, decoder, chunk):
    ranges = array.refs.ranges(chunk)
    return decoder.decode(b"".join(data[offset : offset + length] for _, offset, length in ranges))


def whole(data, array):
    """All chunks put together; None where they do not decode."""
    found = np.zeros(array.shape, array.dtype)
    decoder = Jpeg2000Decoder(
        Jpeg2000Config.from_json(array.codecs[0].configuration), array.chunks, array.dtype, array.fill_value
    )
    try:
        for chunk in range(array.refs.chunks):
            place = found[where(array, chunk)]
            place[...] = chunk_of(data, array, decoder, chunk)[..., : place.shape[-2], : place.shape[-1]]
    except JnrrdzError:
        return None
    return found


def where(array, chunk):
    row, column = divmod(chunk, array.grid[-1])
    height, width = array.chunks[-2:]
    return np.s_[..., row * height : (row + 1) * height, column * width : (column + 1) * width]


def differing(path):
    """The number of arrays with windows, and what differs in them."""
    found, wrong = 0, []
    cut, plain = arrays(path, "always"), None
    for name, array in cut.items():
        if array.codecs[0].name != JPEG2000_WINDOW or np.prod(array.shape) > MOST:
            continue
        plain, data = plain or arrays(path, "never"), path.read_bytes()
        expected = whole(data, plain[name])
        if expected is None:
            continue
        config = Jpeg2000WindowConfig.from_json(array.codecs[0].configuration)
        decoder = WindowedDecoder(config, array.chunks, array.dtype, array.fill_value)
        found += 1
        for chunk in np.unique(np.linspace(0, array.refs.chunks - 1, SOME).astype(int)).tolist():
            known = expected[where(array, chunk)]
            pixels = chunk_of(data, array, decoder, chunk)[..., : known.shape[-2], : known.shape[-1]]
            if not np.array_equal(pixels, known):
                wrong.append(f"{path.name} {name} {chunk}")
    return found, wrong


def test_windows_are_parts_of_the_whole():
    counts = {path: differing(path) for path in FILES if path.stat().st_size < LARGEST}
    assert [text for _, wrong in counts.values() for text in wrong] == []
    files = sum(found > 0 for found, _ in counts.values())
    assert files >= FEWEST  # 44 files, 249 levels when this was written
