"""Series with bytes changed anywhere: they scan or they are refused, in bounded time and memory."""

import io
import resource
import struct

import numpy as np
import pytest
import tifffile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jnrrdz
from jnrrdz.formats.tiff.structure import TiffLayout

PAGES = np.arange(6 * 16 * 16, dtype="u2").reshape(6, 16, 16)


def written(*, pages=False, **options):
    out = io.BytesIO()
    if not pages:
        tifffile.imwrite(out, PAGES, photometric="minisblack", **options)
        return out.getvalue()
    with tifffile.TiffWriter(out) as tif:
        for number, page in enumerate(PAGES):
            said = {name: value for name, value in options.items() if number == 0 or name in {"tile", "compression"}}
            tif.write(page, photometric="minisblack", metadata=None, contiguous=False, **said)
    return out.getvalue()


LSM = struct.pack("<2I8i6d", 67127628, 512, 16, 16, 3, 1, 1, 2, 7, 5, 1e-7, 2e-7, 3e-7, 0, 0, 0).ljust(512, b"\0")
QPI = "<PerkinElmer-QPI-ImageDescription><PixelSizeMicrons>0.5</PixelSizeMicrons></PerkinElmer-QPI-ImageDescription>"

FILES = {
    "stack": written(pages=True),
    "tiles": written(pages=True, tile=(16, 16), compression="zlib"),
    "ome": written(ome=True, metadata={"axes": "ZYX", "PhysicalSizeX": 0.5}),
    "imagej": written(imagej=True, metadata={"axes": "ZYX"}),
    "shaped": written(metadata={"axes": "TYX"}),
    "lsm": written(pages=True, extratags=[(34412, 1, 512, LSM, True)]),
    "svs": written(pages=True, description="Aperio x|MPP = 0.5", tile=(16, 16)),
    "qpi": written(pages=True, description=QPI, software="PerkinElmer-QPI"),
    "stk": written(pages=True, extratags=[(33628, 4, 2, (0, 0), True), (33629, 4, 6, (2, 1, 9, 0, 9, 0), True)]),
    "fluoview": written(pages=True, extratags=[(34361, 1, 64, bytes(64), True), (34362, 1, 8, bytes(8), True)]),
    "ndpi": written(pages=True, extratags=[(271, 2, 0, "Hamamatsu", True), (65420, 4, 1, 1, True)]),
    "scn": written(
        pages=True,
        description='<scn><collection><image><pixels><dimension ifd="0" r="0"/></pixels></image></collection></scn>',
    ),
}


def headers(data):
    """Return the places that scans look at: the header and everything around the IFDs."""
    layout = TiffLayout(lambda start, stop: data[start:stop], len(data))
    places = set(range(8))
    for ifd in map(layout.ifd, layout.main):
        places |= set(range(ifd.offset, min(ifd.offset + 14 + 12 * len(ifd.entries), len(data))))
        for entry in ifd.entries.values():
            places |= set(range(entry.position, min(entry.position + 600, len(data))))
    return sorted(places)


PLACES = {name: headers(data) for name, data in FILES.items()}


@pytest.mark.parametrize("case", FILES)
@pytest.mark.filterwarnings("ignore")
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(draw=st.data())
def test_changed_bytes_are_read_or_refused(tmp_path, case, draw):
    data = bytearray(FILES[case])
    for _ in range(draw.draw(st.integers(1, 4))):
        data[draw.draw(st.sampled_from(PLACES[case]))] = draw.draw(st.integers(0, 255))
    cut = draw.draw(st.one_of(st.just(len(data)), st.integers(0, len(data))))
    path = tmp_path / "a.tif"
    path.write_bytes(data[:cut])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        group = jnrrdz.scan(path)
    except jnrrdz.JnrrdzError:
        return
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 512 * 1024
    for _, array in group.arrays():
        assert (array.refs.offset + array.refs.length <= cut).all()
