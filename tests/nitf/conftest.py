"""NITF files that jbpy writes: headers by an independent writer, pixels as the test lays them out.

Nothing here imports jnrrdz's layouts.
"""

import io
import logging
import struct

import jbpy
import pytest

import jnrrdz

logging.getLogger("jbpy").propagate = False


def header(subheader, fields):
    """Set an image's fields in the order in which jbpy wants them; bands first, since others depend on them."""
    for name in sorted(fields, key=lambda name: name not in {"NBANDS", "XBANDS", "IC", "ICORDS", "NICOM", "UDIDL"}):
        subheader[name].value = fields[name]


def nitf_bytes(*images, tres=(), version=("NITF", "02.10"), luts=None):
    """Return a file of images, each a pair of data and header fields."""
    file = jbpy.Jbp()
    file["FileHeader"]["FHDR"].value, file["FileHeader"]["FVER"].value = version
    file["FileHeader"]["FDT"].value = "20200102030405"
    file["FileHeader"]["OSTAID"].value = "test"
    file["FileHeader"]["NUMI"].value = len(images)
    for number, (data, fields) in enumerate(images):
        file["FileHeader"][f"LI{number + 1:03}"].value = len(data)
        subheader = file["ImageSegments"][number]["subheader"]
        size = {"NPPBH": fields["NCOLS"], "NPPBV": fields["NROWS"], "NBPR": 1, "NBPC": 1, "IDLVL": number + 1}
        bits = {"NBPP": 8, "ABPP": fields.get("NBPP", 8), "NBANDS": 1, "IALVL": 0, "ILOC": (0, 0)}
        header(subheader, {"IID1": "test", "IREP": "MULTI", "IC": "NC", **bits, **size, **fields})
        if tres:
            subheader["UDIDL"].value = 4  # any that is more than that of UDOFL makes room; jbpy sets it right
        for tre in tres:
            subheader["UDID"].append(tre)
        if luts is not None:
            subheader["NLUTS00001"].value = len(luts)
            subheader["NELUT00001"].value = len(luts[0])
            for band, lut in enumerate(luts):
                subheader[f"LUTD00001{band + 1}"].value = lut
    file.finalize()
    out = io.BytesIO()
    file.dump(out)
    for number, (data, _) in enumerate(images):
        out.seek(file["ImageSegments"][number]["Data"].get_offset())
        out.write(data)
    return out.getvalue()


def mask_bytes(offsets, pad=b"", pad_bits=None, padded=()):
    """Return a mask table; None among the offsets is a missing block."""
    table = b"".join(struct.pack(">I", 0xFFFFFFFF if offset is None else offset) for offset in offsets)
    pads = b"".join(struct.pack(">I", 0xFFFFFFFF if offset is None else offset) for offset in padded)
    bits = len(pad) * 8 if pad_bits is None else pad_bits
    begin = 10 + len(pad) + len(table) + len(pads)
    return struct.pack(">IHHH", begin, 4 if table else 0, 4 if pads else 0, bits) + pad + table + pads


@pytest.fixture
def make_nitf(tmp_path):
    """Return a function that writes a file and returns its path."""

    def make(*images, name="image.ntf", **choices):
        path = tmp_path / name
        path.write_bytes(nitf_bytes(*images, **choices))
        return path

    return make


@pytest.fixture(scope="session")
def make_mask():
    return mask_bytes


@pytest.fixture(scope="session")
def make_bytes():
    return nitf_bytes


@pytest.fixture
def open_nitf(tmp_path):
    """Return a function that indexes a file and opens the manifest."""

    def opened(path, **choices):
        out = tmp_path / f"{path.name}.json"
        jnrrdz.index(path, out, overwrite=True, **choices)
        return jnrrdz.open_group(out)

    return opened
