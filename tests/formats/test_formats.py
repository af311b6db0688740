"""What formats say of themselves, and a sixth that is added with a module and a line."""

import json
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import resolve_name

import numpy as np
import pytest
import tifffile
from click.testing import CliRunner

import jnrrdz
from jnrrdz.batches.stac import Assets, found_in
from jnrrdz.cli import cli
from jnrrdz.core.codec_table import ROOMS
from jnrrdz.formats import FORMATS
from jnrrdz.options import ScanOptions
from tests.formats.toy import TOY, toy_bytes

PIXELS = np.arange(12 * 17, dtype="u1").reshape(12, 17)


def codecs_of(fmt):
    """Return the names of the codecs in a format's room, as the table of codecs has them."""
    room = f"{resolve_name(fmt.scan).__module__.rpartition('.')[0]}.codecs"
    if room not in ROOMS:
        return []
    return [record.name for record in import_module(room).RECORDS]


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_what_a_format_names_is_there(fmt):
    for name in (fmt.scan, fmt.decoders, fmt.in_place, fmt.verify_listing, fmt.verify_tables):
        assert name is None or callable(resolve_name(name))
    points = {point.name for point in entry_points(group="zarr.codecs")}
    assert set(codecs_of(fmt)) <= points
    assert set(fmt.options) <= set(ScanOptions.__dataclass_fields__)
    assert (fmt.magic is None) == fmt.is_directory


def test_every_room_of_codecs_is_that_of_a_format():
    names = {name for fmt in FORMATS for name in codecs_of(fmt)}
    assert names == {record.name for room in ROOMS for record in import_module(room).RECORDS}


@pytest.fixture
def toys(tmp_path):
    """Two files of a format that is registered by one line."""
    FORMATS.append(TOY)
    (tmp_path / "toys").mkdir()
    for name in ("a", "b"):
        (tmp_path / "toys" / f"{name}.toy").write_bytes(toy_bytes(PIXELS))
    yield tmp_path / "toys"
    FORMATS.remove(TOY)


def test_a_new_format_is_indexed_and_opened(toys, tmp_path):
    assert jnrrdz.index(toys / "a.toy", tmp_path / "a.json").arrays == 1
    np.testing.assert_array_equal(jnrrdz.open_dataset(tmp_path / "a.json")["data"], PIXELS)
    np.testing.assert_array_equal(jnrrdz.open_dataset(toys / "a.toy")["data"], PIXELS)


def test_a_batch_finds_a_new_format(toys, tmp_path):
    done = jnrrdz.batch(f"{toys}/", f"{tmp_path}/{{stem}}.json")
    assert (done.ok, done.failed) == (2, 0)
    np.testing.assert_array_equal(jnrrdz.open_dataset(tmp_path / "b.json")["data"], PIXELS)


@pytest.mark.usefixtures("toys")
def test_stac_knows_the_media_types_of_a_new_format():
    item = {"id": "i", "assets": {"toy": {"href": "https://host/a.toy", "type": "image/x-toy"}}}
    names = (("id", "i"), ("asset", "toy"))
    (found,) = found_in(item, "https://host/i.json", Assets())
    assert (found.url, found.names, found.named_by) == ("https://host/a.toy", names, "https://host/i.json")


@pytest.mark.usefixtures("toys")
def test_help_and_codecs_show_a_new_format():
    run = CliRunner().invoke
    for command in ("index", "batch"):
        (line,) = [line for line in run(cli, [command, "-h"]).stdout.splitlines() if line.startswith("  Toy ")]
        assert line.split() == ["Toy", ".toy", "(alone", "understands", "--allow-missing)"]
    assert "none at all" in run(cli, ["codecs"]).stdout
    survey = json.loads(run(cli, ["codecs", "--json"]).stdout)
    assert survey["formats"][-1]["name"] == "Toy"
    assert survey["toy_compressions"][0]["readable"]


def test_an_option_of_one_format_is_refused_by_the_others(toys, tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", PIXELS)
    with pytest.raises(jnrrdz.UnsupportedError, match="allow_missing is for Toy"):
        jnrrdz.scan(tmp_path / "a.tif", allow_missing=True)
    with pytest.raises(jnrrdz.UnsupportedError, match="chain is for N5 containers"):
        jnrrdz.scan(toys / "a.toy", chain="pad")
    jnrrdz.scan(toys / "a.toy", allow_missing=True)


@pytest.mark.usefixtures("toys")
def test_a_refusal_names_a_new_format(tmp_path):
    (tmp_path / "x").write_bytes(b"hello")
    with pytest.raises(
        jnrrdz.UnsupportedError,
        match="it reads TIFF, JPEG 2000, NITF, JNRRD, NRRD, HDF5, netCDF-3, FITS, Sentinel-2 product, "
        "Landsat product, DMR\\+\\+, Toy",
    ):
        jnrrdz.scan(tmp_path / "x")
