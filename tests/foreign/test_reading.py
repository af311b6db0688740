"""What is indexed equals what the format's own readers see: numbers, gaps, scales, times, names."""

import h5py
import hdf5plugin
import numpy as np
import pytest
import xarray as xr
from astropy.io import fits

import jnrrdz


def by_us(path, **options):
    """Return the dataset without our own attribute."""
    found = xr.open_dataset(path, **options)
    del found.attrs["jnrrdz"]
    return found


@pytest.mark.parametrize("name", ["a.json", "a.parquet", None])
def test_a_dataset_is_the_one_that_its_own_reader_sees(written, name, tmp_path):
    path, expected = written
    if name is not None:
        jnrrdz.index(path, tmp_path / name)
        found = by_us(tmp_path / name, engine="jnrrdz")
    else:
        found = by_us(path, engine="jnrrdz")
    xr.testing.assert_identical(found.load(), expected)
    assert found["t2m"].encoding["dtype"] == np.dtype("i2")


def test_zarr_reads_the_stored_numbers(written):
    path, _ = written
    with xr.open_dataset(path, mask_and_scale=False, decode_times=False) as stored:
        group = jnrrdz.open_group(path)
        for name in ("t2m", "gaps", "time", "x"):
            np.testing.assert_array_equal(group[name][...], stored[name])
            assert group[name].dtype == stored[name].dtype.newbyteorder("=")


ARRAYS = {
    "big endian": {"data": np.arange(60, dtype=">i4").reshape(6, 10), "chunks": (4, 4)},
    "bool": {"data": np.arange(60).reshape(6, 10) % 3 == 0},
    "half": {"data": np.linspace(0, 1, 60).astype("f2").reshape(6, 10), "chunks": (6, 3), "compression": "gzip"},
    "complex": {"data": (np.arange(60) * 1j).reshape(6, 10), "chunks": (5, 5), "shuffle": True, "compression": "gzip"},
    "odd elements": {"data": np.arange(60, dtype="f8").reshape(6, 10), "chunks": (3, 3), "fletcher32": True},
    "blosc": {"data": np.arange(600, dtype="u2").reshape(60, 10), "chunks": (7, 10), **hdf5plugin.Blosc(cname="zstd")},
    "zstd": {"data": np.arange(600, dtype="u2").reshape(60, 10), "chunks": (7, 10), **hdf5plugin.Zstd()},
    "empty": {"data": np.zeros((0, 10), "f4")},
    "larger chunks": {"data": np.arange(5, dtype="f8"), "chunks": (512,), "maxshape": (None,)},
    "larger packed chunks": {"data": np.arange(5.0), "chunks": (512,), "maxshape": (None,), "compression": "gzip"},
}


@pytest.mark.parametrize("name", ARRAYS)
def test_hdf5(make_hdf5, name):
    path = make_hdf5(lambda file: file.create_dataset("g/v", **ARRAYS[name]))
    np.testing.assert_array_equal(jnrrdz.open_group(path)["g/v"][...], ARRAYS[name]["data"])


def test_hdf5_behind_a_block_of_the_user(make_hdf5):
    def write(file):
        for name in ("big endian", "zstd"):
            file.create_dataset(name, **ARRAYS[name])

    group = jnrrdz.open_group(make_hdf5(write, userblock_size=512))
    for name in ("big endian", "zstd"):
        np.testing.assert_array_equal(group[name][...], ARRAYS[name]["data"])


def test_checksum_before_shuffle(tmp_path):
    """netCDF-C puts Fletcher-32 before shuffle: four bytes are left over that fill no element."""
    file_access = h5py.h5f.create(str(tmp_path / "x.h5").encode())
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((3, 3))
    plist.set_fletcher32()
    plist.set_shuffle()
    plist.set_deflate(3)
    data = np.arange(60, dtype="f8").reshape(6, 10)
    dataset = h5py.h5d.create(file_access, b"v", h5py.h5t.NATIVE_DOUBLE, h5py.h5s.create_simple((6, 10)), plist)
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, data)
    dataset.close()
    file_access.close()
    np.testing.assert_array_equal(jnrrdz.open_group(tmp_path / "x.h5")["v"][...], data)


def test_what_was_never_written_is_the_fill_value(make_hdf5):
    def write(file):
        file.create_dataset("sparse", (8, 8), "i2", chunks=(4, 4), fillvalue=-5)[4:, 4:] = 3
        file.create_dataset("never", (8, 8), "f4", fillvalue=2.5)

    path = make_hdf5(write)
    with h5py.File(path) as file:
        for name in ("sparse", "never"):
            np.testing.assert_array_equal(jnrrdz.open_group(path)[name][...], file[name][...])


def test_bytes_in_the_header_are_held_by_the_manifest(tmp_path):
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        kind = h5py.h5t.STD_I16BE
        dataset = h5py.h5d.create(file.id, b"v", kind, h5py.h5s.create_simple((4,)), plist)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([1, -2, 300, 4], "i2"))
    jnrrdz.index(tmp_path / "x.h5", tmp_path / "x.json")
    assert jnrrdz.open_group(tmp_path / "x.json")["v"][...].tolist() == [1, -2, 300, 4]


def test_groups_and_axes_without_names(make_hdf5):
    def write(file):
        file["a"], file["b"], file["deep/er/c"] = np.zeros((3, 4)), np.zeros((4, 4)), np.ones((5, 3), "u1")

    tree = xr.open_datatree(make_hdf5(write), engine="jnrrdz")
    assert tree["a"].shape == (3, 4)
    assert len(set(tree["b"].dims)) == 2
    assert tree["a"].dims[1] in tree["b"].dims
    assert tree["deep/er/c"].values.all()


def test_an_array_in_one_piece_is_read_row_by_row(make_hdf5):
    data = np.arange(3 * 2048 * 1024, dtype="f8").reshape(3 * 2048, 1024)
    (path, array), *_ = jnrrdz.scan(make_hdf5(lambda file: file.create_dataset("v", data=data))).arrays()
    assert path == "v"
    assert array.chunks == (2048, 1024)
    np.testing.assert_array_equal(
        jnrrdz.open_group(make_hdf5(lambda file: file.create_dataset("v", data=data)))["v"][2040:2060, 5],
        data[2040:2060, 5],
    )


FITS = {
    "u1": np.arange(20, dtype="u1").reshape(4, 5),
    "i2": np.arange(-10, 10, dtype="i2").reshape(4, 5),
    "u2": np.arange(65516, 65536, dtype="u2").reshape(4, 5),
    "i8": np.arange(60, dtype="i8").reshape(3, 4, 5),
    "f4": np.linspace(0, 1, 60).astype("f4").reshape(3, 4, 5),
    "f8": np.linspace(0, 1, 5),
}


@pytest.mark.parametrize("name", FITS)
def test_fits(make_fits, name):
    path = make_fits(fits.PrimaryHDU(), fits.ImageHDU(FITS[name], name="SCI"))
    np.testing.assert_array_equal(xr.open_dataset(path, engine="jnrrdz")["SCI"], fits.getdata(path, "SCI"))


def test_fits_scaled_with_blanks(make_fits):
    hdu = fits.ImageHDU(np.arange(-10, 10, dtype="i4").reshape(4, 5), name="SCI")
    hdu.header.update({"BSCALE": 0.25, "BZERO": 100.0, "BLANK": -3})
    path = make_fits(fits.PrimaryHDU(), hdu)
    found = xr.open_dataset(path, engine="jnrrdz")["SCI"]
    np.testing.assert_array_equal(found, fits.getdata(path, "SCI"))
    assert int(np.isnan(found).sum()) == 1
    assert found.encoding["dtype"] == np.dtype("i4")


def test_dmrpp(tmp_path, written):
    path, expected = written
    if not path.read_bytes().startswith(b"\x89HDF"):
        pytest.skip("DMR++ describes HDF5")
    data = expected["gaps"].values.astype("<f4")
    (tmp_path / "d.bin").write_bytes(b"head" + data.tobytes())
    (tmp_path / "d.bin.dmrpp").write_text(DMRPP.format(rows=data.shape[0], columns=data.shape[1], nbytes=data.nbytes))
    found = xr.open_dataset(tmp_path / "d.bin.dmrpp", engine="jnrrdz")
    np.testing.assert_array_equal(found["gaps"], data)
    jnrrdz.index(tmp_path / "d.bin.dmrpp", tmp_path / "d.json")
    assert {record.url.rpartition("/")[2] for record in jnrrdz.scan(tmp_path / "d.bin.dmrpp").sources} == {
        "d.bin",
        "d.bin.dmrpp",
    }
    (tmp_path / "d.bin").unlink()
    with pytest.raises(jnrrdz.MalformedError, match=r"not there: d\.bin"):
        jnrrdz.scan(tmp_path / "d.bin.dmrpp")


DMRPP = """<?xml version="1.0" encoding="ISO-8859-1"?>
<Dataset xmlns="http://xml.opendap.org/ns/DAP/4.0#" xmlns:dmrpp="http://xml.opendap.org/dap/dmrpp/1.0.0#"
 dapVersion="4.0" dmrVersion="1.0" name="d.bin">
 <Dimension name="y" size="{rows}"/><Dimension name="x" size="{columns}"/>
 <Float32 name="gaps"><Dim name="/y"/><Dim name="/x"/>
  <dmrpp:chunks byteOrder="LE"><dmrpp:chunk offset="4" nBytes="{nbytes}"/></dmrpp:chunks>
 </Float32>
</Dataset>
"""
