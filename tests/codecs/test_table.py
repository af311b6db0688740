"""The table of codecs against all that names codecs elsewhere: entry points, documentation, zarr, help."""

import json
import tomllib
from dataclasses import fields
from inspect import getattr_static
from pathlib import Path

import pytest
from click.testing import CliRunner
from zarr.registry import get_codec_class

from jnrrdz.cli import cli
from jnrrdz.core.codec_table import all_records, find, own_records, renamed
from jnrrdz.core.configuration import Configuration, Readers, Stage
from jnrrdz.records import resolved

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
RECORDS = all_records().values()
every_record = pytest.mark.parametrize("record", RECORDS, ids=[each.name for each in RECORDS])
PLACES = (
    "codec_class",
    "bounded_class",
    "decoder",
    "encoder",
    "samples",
    "filter_class",
    "standard",
    "foreign",
    "foreign_document",
    "lack",
)
"""Members that name a function or a class."""


def test_entry_points_are_those_of_the_table():
    classes = {name: each.codec_class for name, each in own_records().items()}
    filters = {each.name: each.filter_class for each in RECORDS if each.filter_class}
    assert PROJECT["entry-points"]["zarr.codecs"] == classes
    assert PROJECT["entry-points"]["numcodecs.codecs"] == filters


def test_every_schema_is_of_a_codec():
    schemas = (ROOT / "docs" / "codecs").glob("*/schema.json")
    paths = {path.relative_to(ROOT).as_posix() for path in schemas}
    assert paths == {each.schema for each in RECORDS if each.schema}


@every_record
def test_what_a_record_names_can_be_imported(record):
    places = [getattr(record, name) for name in PLACES]
    assert all(callable(resolved(place)) for place in places if place)


def test_every_member_that_names_something_is_imported_here():
    record = find("tiff-tile")
    values = {each.name: getattr(record, each.name) for each in fields(record)}
    named = {k for k, v in values.items() if isinstance(v, str) and ":" in v}
    assert named <= set(PLACES)


@every_record
def test_a_configuration_has_the_name_of_its_record(record):
    if record.config is not None:
        assert issubclass(record.config, Configuration)
        assert record.name == record.config.NAME


@every_record
def test_zarr_has_the_codecs_that_are_said_to_be_zarrs_own(record):
    module = get_codec_class(record.name).__module__
    assert module.startswith("zarr.") is (record.readers is not Readers.JNRRDZ)


@every_record
def test_a_codec_of_ours_writes_as_its_record_says(record):
    if record.codec_class is None:
        assert record.can_encode
        return
    refusing = {"TileCodec", "ReadOnlyCodec"}
    method = getattr_static(resolved(record.codec_class), "_encode_sync")
    owner = method.__qualname__.partition(".")[0]
    assert record.can_encode is (owner not in refusing)


@every_record
def test_pixels_and_compressors_of_ours_name_their_decoder(record):
    is_decoded_here = record.stage is Stage.PIXELS and record.codec_class
    if is_decoded_here or record.bounded_class == "jnrrdz.codecs.steps:BoundedCodec":
        assert record.decoder is not None


def test_the_command_lists_the_table():
    result = CliRunner().invoke(cli, ["codecs", "--json"])
    listed = {each["name"]: each["readable"] for each in json.loads(result.output)["codecs"]}
    assert listed == {name: each.can_decode for name, each in own_records().items()}


HEAD = "| codec | from, to | without jnrrdz | writes |\n|---|---|---|---|\n"


def row(record):
    """Return the line of a codec in docs/codecs/README.md."""
    name = f"`{record.name}`"
    if record.schema:
        name = f"[{name}]({Path(record.schema).parent.name}/README.md)"
    writes = "yes" if record.can_encode else "no"
    return f"| {name} | {record.stage.value} | {record.readers.value} | {writes} |\n"


def test_the_page_of_codecs_is_the_table():
    page = (ROOT / "docs" / "codecs" / "README.md").read_text("utf-8")
    assert page.endswith(HEAD + "".join(map(row, RECORDS)))


def test_former_names():
    assert renamed({"name": "jpeg", "configuration": {"quality": 3}}) == {
        "name": "jbp-jpeg",
        "configuration": {"quality": 3},
    }
    others = {"name": "jpeg", "configuration": {"subsampling": 1}}
    assert renamed(others) == others
    assert renamed("bytes") == "bytes"
