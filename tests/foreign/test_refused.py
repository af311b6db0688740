"""What no reference can say exactly is left out by name, or refused where nothing is left; no file opens another."""

import subprocess
import sys

import h5py
import numpy as np
import pytest
import xarray as xr
from astropy.io import fits

import jnrrdz

NUMBERS = np.arange(60, dtype="i4").reshape(6, 10)


def odd_integers(file):
    kind = h5py.h5t.STD_I16LE.copy()
    kind.set_precision(12)
    h5py.h5d.create(file.id, b"v", kind, h5py.h5s.create_simple((4,))).write(
        h5py.h5s.ALL, h5py.h5s.ALL, np.arange(4, dtype="i2")
    )


def elsewhere(file):
    file.create_dataset("v", (6, 10), "i4", external=[("/etc/hostname", 0, 240)])


def virtual(file):
    layout = h5py.VirtualLayout((6, 10), "i4")
    layout[:] = h5py.VirtualSource("/tmp/other.h5", "v", (6, 10))
    file.create_virtual_dataset("v", layout)


def unfiltered(file):
    dataset = file.create_dataset("v", (6, 10), "i4", chunks=(6, 10), compression="gzip")
    dataset.id.write_direct_chunk((0, 0), NUMBERS.tobytes(), filter_mask=1)


REFUSED = {
    "text": lambda file: file.create_dataset("v", data=["a", "bc"], dtype=h5py.string_dtype()),
    "text of one length": lambda file: file.create_dataset("v", data=np.array([b"ab", b"cd"])),
    "compound": lambda file: file.create_dataset("v", data=np.zeros(3, [("a", "i4"), ("b", "f4")])),
    "enum of lists": lambda file: file.create_dataset("v", (3,), h5py.vlen_dtype(np.dtype("i4"))),
    "null": lambda file: file.create_dataset("v", data=h5py.Empty("f4")),
    "lzf": lambda file: file.create_dataset("v", data=NUMBERS, chunks=(2, 2), compression="lzf"),
    "scaleoffset": lambda file: file.create_dataset("v", data=NUMBERS, chunks=(2, 2), scaleoffset=0),
    "twelve bits": odd_integers,
    "another file": elsewhere,
    "virtual": virtual,
    "a chunk without its filter": unfiltered,
    "a wide claim": lambda file: file.create_dataset("v", (1 << 40, 1 << 20), "i4"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_hdf5(make_hdf5, name):
    with pytest.raises(jnrrdz.UnsupportedError, match="nothing in it can be referred to: v: "):
        jnrrdz.scan(make_hdf5(REFUSED[name]))

    def write(file):
        REFUSED[name](file)
        file["kept"] = NUMBERS

    with pytest.warns(UserWarning, match="left out: v: "):
        group = jnrrdz.scan(make_hdf5(write, name="y.h5"))
    assert [path for path, _ in group.arrays()] == ["kept"]


def test_no_other_file_is_opened(make_hdf5, tmp_path):
    make_hdf5(lambda file: file.create_dataset("v", data=NUMBERS), name="other.h5")
    path = make_hdf5(lambda file: file.__setitem__("link", h5py.ExternalLink(str(tmp_path / "other.h5"), "v")))
    with pytest.raises(jnrrdz.UnsupportedError, match="a link into another file"):
        jnrrdz.scan(path)


def test_links_that_go_in_circles(make_hdf5):
    def write(file):
        file["g/v"] = NUMBERS
        file["g/up"] = file["g"]
        file["soft"], file["nowhere"] = h5py.SoftLink("/"), h5py.SoftLink("/x")

    with pytest.warns(UserWarning, match="left out"):
        assert [path for path, _ in jnrrdz.scan(make_hdf5(write)).arrays()] == ["g/v"]


def test_a_damaged_chunk_is_an_error_not_numbers(make_hdf5):
    path = make_hdf5(lambda file: file.create_dataset("v", data=NUMBERS, chunks=(6, 10), fletcher32=True))
    _, array = jnrrdz.scan(path).arrays()[0]
    data = bytearray(path.read_bytes())
    data[array.refs.offset[0] + 5] ^= 1
    path.write_bytes(data)
    with pytest.raises(jnrrdz.MalformedError, match="Fletcher-32"):
        jnrrdz.open_group(path)["v"][...]


@pytest.mark.parametrize("size", [40, 200, 700])
def test_a_file_that_is_cut_is_an_error(make_hdf5, size):
    path = make_hdf5(lambda file: file.create_dataset("v", data=NUMBERS, chunks=(2, 2)))
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(jnrrdz.MalformedError, match="not readable as HDF5"):
        jnrrdz.scan(path)


@pytest.mark.filterwarnings("ignore:left out")
def test_tables_of_fits(make_fits):
    table = fits.BinTableHDU.from_columns([fits.Column("a", "E", array=[1.0, 2.0])], name="T")
    with pytest.raises(jnrrdz.UnsupportedError, match="T: a table"):
        jnrrdz.scan(make_fits(fits.PrimaryHDU(), table))
    path = make_fits(fits.PrimaryHDU(NUMBERS), table, name="y.fits")
    assert [name for name, _ in jnrrdz.scan(path).arrays()] == ["PRIMARY"]


def test_text_of_netcdf_3(tmp_path):
    xr.Dataset({"a": ("x", [1.0]), "s": ((), b"abc")}).to_netcdf(tmp_path / "a.nc", engine="scipy")
    with pytest.warns(UserWarning, match="left out: s: text"):
        assert [name for name, _ in jnrrdz.scan(tmp_path / "a.nc").arrays()] == ["a"]


def test_a_dmrpp_document_with_entities(tmp_path):
    text = '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><Dataset xmlns:dmrpp="x">&b;</Dataset>'
    (tmp_path / "a.nc.dmrpp").write_text(text)
    with pytest.raises(jnrrdz.JnrrdzError, match="DMR"):
        jnrrdz.scan(tmp_path / "a.nc.dmrpp")


def test_a_package_that_is_missing_is_named_with_its_extra(make_hdf5):
    path = make_hdf5(lambda file: file.__setitem__("v", NUMBERS))
    program = "import sys; sys.modules['h5py'] = None; sys.argv[0] = 'jnrrdz'; from jnrrdz.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "info", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "pip install 'jnrrdz[hdf]'" in done.stderr
    assert "Traceback" not in done.stderr
