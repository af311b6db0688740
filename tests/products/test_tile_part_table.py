"""Tables of others that list the tile-parts of JPEG 2000 files."""

import struct

import jnrrdz
import numpy as np
import pyarrow as pa
import pytest
import rasterio
import xarray as xr
from jnrrdz.errors import JnrrdzError
from pyarrow import parquet
from tests.products.writers import SAFE, image_of, moved, pixels, write_image

STORED = {"mask_and_scale": False}


def tile_parts(data):
    """Return the offset of the first SOT, and tile and length of each tile-part."""
    first = at = data.index(b"\xff\x90\0\x0a")
    rows = []
    while data[at : at + 2] == b"\xff\x90":
        tile, length = struct.unpack_from(">HI", data, at + 4)
        rows.append((tile, length))
        at += length
    assert data[at:] == b"\xff\xd9"
    return first, rows


def tlm(rows):
    """Return a TLM marker segment, as OpenJPEG writes it."""
    body = b"".join(struct.pack(">BI", tile, length) for tile, length in rows)
    return struct.pack(">HHBB", 0xFF55, 4 + len(body), 0, 0x50) + body


def index_of(path, change=lambda rows: rows, size=0, shift=0, cut=0):
    """Return the bytes of a row; changes make it wrong."""
    data = path.read_bytes()
    first, rows = tile_parts(data)
    segment = tlm(change(rows))
    index = struct.pack(">QQL", len(data) + size, first + shift, len(segment)) + segment
    return index[: len(index) - cut]


def table(path, /, **columns):
    parquet.write_table(pa.table(columns), path)
    return str(path)


@pytest.fixture(scope="module")
def band(tmp_path_factory):
    """Return one image of a product, of 36 tiles and without TLM."""
    root = tmp_path_factory.mktemp("table") / f"{SAFE}/GRANULE/L2A/IMG_DATA/R10m"
    path = root / "T29UNU_20221005T115411_B04_10m.jp2"
    options = {"REVERSIBLE": "YES", "QUALITY": "100", "tiled": True}
    data = pixels("B04", 384)
    write_image(path, data, 10, "JP2OpenJPEG", BLOCKXSIZE=64, BLOCKYSIZE=64, **options)
    assert len(tile_parts(path.read_bytes())[1]) == 36
    assert b"\xff\x55" not in path.read_bytes()[:2000]
    return path


def row_of(band, **changes):
    """Return the columns of a table with one row."""
    start = str(band).index(SAFE)
    path = f"Sentinel-2/MSI/L2A/2022/10/05/{str(band)[start:]}"
    return {"path": [path], "index": [index_of(band, **changes)]}


def test_an_index_with_a_table_is_the_one_without(band, tmp_path):
    name = table(tmp_path / "t.parquet", **row_of(band))
    plain, with_table = jnrrdz.scan(band), jnrrdz.scan(band, tile_part_table=name)
    for (path, array), (_, other) in zip(
        plain.arrays(), with_table.arrays(), strict=True
    ):
        ours, theirs = array.refs.columns(), other.refs.columns()
        assert np.array_equal(ours.offset, theirs.offset), path
        assert np.array_equal(ours.length, theirs.length)
    out = tmp_path / "refs.json"
    jnrrdz.index(band, out, tile_part_table=name)
    with rasterio.open(band) as file:
        assert np.array_equal(xr.open_dataset(out, **STORED).data, file.read(1))


def test_a_table_by_product_and_band(band, tmp_path):
    columns = {
        "product_id": [SAFE.removesuffix(".SAFE")],
        "band_id": ["B04"],
        "index": [index_of(band, size=1)],
    }
    name = table(tmp_path / "t.parquet", **columns)
    # the row is found, since its size is refused
    with pytest.raises(JnrrdzError, match="the table is of a file of"):
        jnrrdz.scan(band, tile_part_table=name)


@pytest.mark.parametrize("index", [b"", None])
def test_files_without_an_entry_are_walked(band, tmp_path, index):
    columns = row_of(band)
    if index is None:
        columns["path"] = [columns["path"][0].replace("B04", "B03")]
    else:
        columns["index"] = [index]
    name = table(tmp_path / "t.parquet", **columns)
    assert jnrrdz.scan(band, tile_part_table=name).arrays()


def swapped(rows):
    """Exchange the lengths of two tiles."""
    other = list(rows)
    other[2], other[3] = (2, rows[3][1]), (3, rows[2][1])
    return other


WRONG = {
    "size": ({"size": 1}, "the table is of a file of"),
    "first": ({"shift": 2}, "the table has the first tile-part at"),
    "lengths": ({"change": swapped}, "not those of this file"),
    "tiles": (
        {"change": lambda rows: [*rows[1:2], *rows[:1], *rows[2:]]},
        "not those of this file",
    ),
    "fewer": ({"change": lambda rows: rows[:-1]}, "not those of this file"),
    "more": ({"change": lambda rows: [*rows, (0, 50)]}, "not those of this file"),
    "cut": ({"cut": 3}, "bytes of TLM, where the index declares"),
    "head": ({"cut": 190}, "an index of 16 bytes"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_row_that_does_not_fit_is_refused(band, tmp_path, kind):
    changes, message = WRONG[kind]
    name = table(tmp_path / "t.parquet", **row_of(band, **changes))
    with pytest.raises(JnrrdzError, match=message) as caught:
        jnrrdz.scan(band, tile_part_table=name)
    assert caught.value.field == "tile-part table"


def test_a_segment_that_is_no_tlm_is_refused(band, tmp_path):
    columns = row_of(band)
    columns["index"] = [columns["index"][0].replace(b"\xff\x55", b"\xff\x52", 1)]
    name = table(tmp_path / "t.parquet", **columns)
    with pytest.raises(JnrrdzError, match="a TLM segment is needed"):
        jnrrdz.scan(band, tile_part_table=name)


def test_rows_that_differ_are_refused(band, tmp_path):
    columns = row_of(band)
    columns = {
        "path": columns["path"] * 2,
        "index": [*columns["index"], index_of(band, size=1)],
    }
    name = table(tmp_path / "t.parquet", **columns)
    with pytest.raises(JnrrdzError, match="2 rows of this file differ"):
        jnrrdz.scan(band, tile_part_table=name)


def test_other_tables_are_refused(band, tmp_path):
    wrong = [
        (table(tmp_path / "a.parquet", path=["x"]), "columns are needed|are needed"),
        (table(tmp_path / "b.parquet", path=["x"], index=["text"]), "other types"),
        (str(band), "no Parquet"),
        (str(tmp_path / "none.parquet"), "no Parquet"),
        ("s3://bucket/t.parquet", "fetch it"),
    ]
    for name, message in wrong:
        with pytest.raises(JnrrdzError, match=message):
            jnrrdz.scan(band, tile_part_table=name)


def test_the_option_is_refused_for_other_formats(landsat):
    image = next(landsat.glob("*_SR_B4.TIF"))
    with pytest.raises(JnrrdzError, match="tile_part_table is for JPEG 2000"):
        jnrrdz.scan(image, tile_part_table="t.parquet")


def test_a_product_takes_a_table(safe, tmp_path):
    folder = moved(safe, tmp_path)
    path = image_of(folder, "B04", 10)
    columns = row_of(path, size=5)
    name = table(tmp_path / "t.parquet", **columns)
    with pytest.raises(JnrrdzError, match="the table is of a file of"):
        jnrrdz.scan(folder, tile_part_table=name)


@pytest.mark.parametrize("change", [None, swapped])
def test_a_far_file_has_the_offsets_of_its_walk(band, tmp_path, http_server, change):
    start = str(band).index(SAFE)
    place = f"/{str(band)[start:]}"
    http_server.files[place] = band.read_bytes()
    columns = row_of(band, **({"change": change} if change else {}))
    name = table(tmp_path / "t.parquet", **columns)
    url = http_server.url + place
    if change is not None:
        with pytest.raises(JnrrdzError, match="not those of this file"):
            jnrrdz.scan(url, tile_part_table=name)
        return
    of_table, of_walk = jnrrdz.scan(url, tile_part_table=name), jnrrdz.scan(url)
    for (_, array), (_, other) in zip(of_table.arrays(), of_walk.arrays(), strict=True):
        assert np.array_equal(array.refs.columns().offset, other.refs.columns().offset)
