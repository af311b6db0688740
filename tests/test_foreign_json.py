"""Foreign JSON: every value of every document replaced by hostile ones, through every door.

Each ends in pixels or in a JnrrdzError.  The suite takes some of these cases by a fixed
seed; JNRRDZ_HOSTILE=all takes all of them, which takes hours.
"""

import itertools
import json
import os
import random
import shutil
import tempfile
import traceback

import numpy as np
import pytest
import xarray as xr
import zarr

import jnrrdz
from jnrrdz.core.json_schema import DEEPEST, members, object_of, one_of, parse_json, validate
from tests.hostile.doors import DOORS, read_group
from tests.hostile.forms import FORMS, kerchunk
from tests.hostile.values import HOSTILE, paths_of, replaced, spelled, text_of

SAMPLES = {"icechunk": 60, "parquet": 250, "stac": 400}
SAMPLE = 500
"""Cases of a form that the suite takes."""

IS_WHOLE = os.environ.get("JNRRDZ_HOSTILE") == "all"
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # thousands of small files
MOST_SHOWN = 20


def every_case(form):
    """Yield each document, path in it, hostile value, and door."""
    for name, document in form.documents.items():
        places = itertools.product(paths_of(document), HOSTILE, DOORS[form.doors])
        for path, label, door in places:
            yield name, path, label, door


def wrong_outcome(form, folder, case):
    """Return what a case ended in, None where that is pixels or an error of ours."""
    name, path, label, door = case
    text = text_of(replaced(form.documents[name], path, HOSTILE[label]))
    target = folder / "target"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    try:
        opened = form.place(target, {name: text})
    except Exception as error:
        if form.name == "Icechunk":
            return None
        raise AssertionError(f"{name}{spelled(path)} = {label}") from error
    try:
        door(opened)
    except jnrrdz.JnrrdzError as error:
        assert str(error)  # noqa: PT017  see the module
    except Exception as error:  # noqa: BLE001  this is what is looked for
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{door.__name__}: {name}{spelled(path)} = {label}"
        return f"{place}: {type(error).__name__}: {str(error)[:100]} ({last.filename}:{last.lineno})"
    return None


@pytest.fixture
def folder():
    from pathlib import Path  # noqa: PLC0415  the fixture alone needs it

    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        yield Path(name)


@pytest.mark.timeout(0 if IS_WHOLE else 300)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("form", FORMS)
def test_a_hostile_value_ends_in_pixels_or_in_our_error(folder, form, caplog):
    found = FORMS[form](folder)
    cases = list(every_case(found))
    if not IS_WHOLE:
        count = min(SAMPLES.get(form, SAMPLE), len(cases))
        cases = random.Random(20261119).sample(cases, count)
    wrong = filter(None, (wrong_outcome(found, folder, case) for case in cases))
    assert list(itertools.islice(wrong, MOST_SHOWN)) == []
    assert not [record for record in caplog.records if record.name == "asyncio"]


NO_IMAGE = "0 images with the axes y, x"
NO_PLACE = "does not say where it lies"
CLOSED = {
    ("ome", "cube"): NO_IMAGE,
    ("kerchunk", "cube"): NO_IMAGE,
    ("n5", "cube"): NO_IMAGE,
    ("gcps", "cube"): NO_PLACE,
    ("zarr-2", "cube"): NO_PLACE,
    ("kerchunk", "overwrite"): "jnrrdz did not make it",
}
"""Doors that are for other sources, by what they say of good documents."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", FORMS)
def test_good_documents_pass_each_door(folder, form):
    """A door that refuses them before it reads them would pass every hostile value."""
    good = FORMS[form](folder)
    name = next(iter(good.documents))
    closed = {}
    for door in DOORS[good.doors]:
        target = folder / "target"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        opened = good.place(target, {name: text_of(good.documents[name])})
        try:
            door(opened)
        except jnrrdz.JnrrdzError as error:
            closed[form, door.__name__] = str(error)
    expected = {place: said for place, said in CLOSED.items() if place[0] == form}
    assert closed.keys() == expected.keys(), closed
    assert all(expected[place] in said for place, said in closed.items())


def refused(form, name, path, value):
    """Return the error with which scanning or reading a document is refused."""
    target = form.folder / "target"
    target.mkdir()
    opened = form.place(target, {name: text_of(replaced(form.documents[name], path, value))})
    with pytest.raises(jnrrdz.JnrrdzError) as found:
        read_group(opened)
    return str(found.value)


GRID = ("chunk_grid", "configuration", "chunk_shape", 0)
OTHER_TYPES = {
    "true for a size": ("json", "0/data/zarr.json", ("shape", 0), True, "shape[0]: found True"),
    "a size that is not whole": ("json", "0/data/zarr.json", ("shape", 0), 1.5, "shape[0]: found 1.5"),
    "a negative chunk": ("json", "0/data/zarr.json", GRID, -1, "chunk_shape[0]: found -1"),
    "a size of 71 bits": ("zarr-3", "g/time/zarr.json", ("shape", 0), 1 << 70, "shape[0]: found 1180591620"),
    "true for a fill value": ("zarr-3", "g/data/zarr.json", ("fill_value",), True, "fill_value: True is no uint16"),
    "true for a mark": (
        "zarr-3",
        "g/data/zarr.json",
        ("attributes", "_FillValue"),
        True,
        "g/data/zarr.json: attributes._FillValue: True is no uint16",
    ),
    "no list of codecs": ("zarr-3", "g/data/zarr.json", ("codecs",), {}, "g/data/zarr.json: codecs: found {}"),
    "no name of a codec": ("zarr-3", "g/data/zarr.json", ("codecs", 0, "name"), 0, "codecs[0].name: found 0"),
    "no sides of a shard's chunks": (
        "zarr-3",
        "g/data/zarr.json",
        ("codecs", 0, "configuration", "chunk_shape", 1),
        True,
        "codecs[0].configuration.chunk_shape[1]: found True",
    ),
    "no attributes": ("zarr-3", "g/zarr.json", ("attributes",), 0, "g/zarr.json: attributes: found 0"),
    "true for a chunk": ("zarr-2", "data/.zarray", ("chunks", 1), True, "data/.zarray: chunks[1]: found True"),
    "another separator": ("zarr-2", "data/.zarray", ("dimension_separator",), "-", "dimension_separator: found '-'"),
    "a dimension without text": (
        "zarr-2",
        "data/.zattrs",
        ("_ARRAY_DIMENSIONS", 0),
        3,
        "data/.zattrs: _ARRAY_DIMENSIONS[0]: found 3",
    ),
    "a filter's elements": (
        "kerchunk",
        "t/.zarray",
        ("filters", 0, "elementsize"),
        True,
        "t/.zarray: filters[0].elementsize: found True",
    ),
    "true for an N5 block": ("n5", "s0/attributes.json", ("blockSize", 0), True, "blockSize"),
    "true for a record size": ("parquet", ".zmetadata", ("record_size",), True, ".zmetadata: record_size: found True"),
    "no folder of records": (
        "parquet",
        ".zmetadata",
        (),
        {"metadata": {}, "record_size": 1, "jnrrdz": {"over": {"folder": "../x"}}},
        ".zmetadata: jnrrdz.over.folder: found '../x'",
    ),
    "true for the size of a source": (
        "json",
        "zarr.json",
        ("attributes", "jnrrdz", "sources", 0, "size"),
        True,
        "jnrrdz.sources[0].size: found True",
    ),
    "true for a reference that is computed": (
        "kerchunk",
        "refs",
        ("gen", 0, "length"),
        True,
        "gen[0].length: found True",
    ),
    "no end of computed references": (
        "kerchunk",
        "refs",
        ("gen", 0, "dimensions", "i", "stop"),
        1.5,
        "gen[0].dimensions.i.stop: found 1.5",
    ),
}


@pytest.mark.parametrize("case", OTHER_TYPES)
@pytest.mark.filterwarnings("ignore")
def test_a_value_of_another_type_is_refused_by_its_path(folder, case):
    form, name, path, value, message = OTHER_TYPES[case]
    assert message in refused(FORMS[form](folder), name, path, value)


@pytest.mark.parametrize("order", [[True, False], [1.0, 0.0], "F", ["1", "0"]])
def test_an_order_of_axes_is_of_integers(folder, order):
    """zarr takes true for 1, so that axes of another document would be exchanged."""
    form = FORMS["json"](folder)
    codecs = [{"name": "transpose", "configuration": {"order": order}}, {"name": "bytes"}]
    assert "codecs[0].configuration.order" in refused(form, "0/data/zarr.json", ("codecs",), codecs)


def dataset(form, **changes):
    """Return the dataset of a Zarr tree whose array has other attributes."""
    target = form.folder / "target"
    target.mkdir()
    document = form.documents["g/data/zarr.json"]
    attributes = {**document["attributes"], **changes}
    text = json.dumps({**document, "attributes": attributes})
    return jnrrdz.open_dataset(form.place(target, {"g/data/zarr.json": text}), group="g")


@pytest.mark.parametrize("name", ["scale_factor", "add_offset"])
@pytest.mark.parametrize("value", [True, "2", None, [1, 2], {}])
def test_a_scale_is_a_number(folder, name, value):
    with pytest.raises(jnrrdz.MalformedError, match=f"data/zarr.json: attributes.{name}: found"):
        dataset(FORMS["zarr-3"](folder), **{name: value})


def test_a_scale_may_be_a_list_of_one(folder):
    """netCDF's attributes are lists."""
    found = dataset(FORMS["zarr-3"](folder), scale_factor=[0.25], add_offset=[1])
    assert found["data"][0, 10].item() == 10 * 0.25 + 1


@pytest.mark.parametrize("scale", [0, 2, [2]])
def test_an_integer_for_a_scale_of_pixels_that_may_be_missing(folder, scale):
    """xarray would give decoded pixels the type of the scale, and an integer is no NaN."""
    found = dataset(FORMS["zarr-3"](folder), scale_factor=scale, _FillValue=3)
    factor = np.ravel(scale)[0]
    np.testing.assert_array_equal(found["data"][0, :5], [0, factor, 2 * factor, np.nan, 4 * factor])


def test_an_integer_for_a_scale_of_floats(folder):
    """xarray would take the integer part of each pixel first."""
    root = zarr.create_group(folder / "a.zarr")
    array = root.create_array("data", shape=(2,), dtype="f4", dimension_names=["x"], attributes={"scale_factor": 2})
    array[...] = [1.5, 2.25]
    assert jnrrdz.open_dataset(folder / "a.zarr")["data"].to_numpy().tolist() == [3, 4.5]


IMAGECODECS = {
    "an axis": ("imagecodecs_delta", {"axis": [1]}, "axis"),
    "true for an axis": ("imagecodecs_delta", {"axis": True}, "axis"),
    "a distance": ("imagecodecs_delta", {"dist": True}, "dist"),
    "a shape": ("imagecodecs_floatpred", {"shape": 3}, "shape"),
    "colours": ("imagecodecs_jpeg", {"colorspace_data": []}, "colorspace_data"),
    "true for grey": ("imagecodecs_jpeg", {"colorspace_data": True}, "colorspace_data"),
    "bits": ("imagecodecs_jpeg", {"bitspersample": 1.5}, "bitspersample"),
    "a format": ("imagecodecs_lzma", {"format": True}, "format"),
    "samples": ("imagecodecs_jpegxl", {"hasalpha": 1}, "hasalpha"),
}


@pytest.mark.parametrize("case", IMAGECODECS)
def test_members_of_imagecodecs_have_types(folder, case):
    name, given, member = IMAGECODECS[case]
    form = FORMS["zarr-2"](folder)
    array = form.documents["data/.zarray"]
    entries = [{"id": name, **given}]
    if "axis" in given or "dist" in given or "shape" in given:
        entries.append({"id": "imagecodecs_lzw"})
    filters = text_of({**array, "filters": entries, "compressor": None})
    target = folder / "target"
    target.mkdir()
    opened = form.place(target, {"data/.zarray": filters})
    with pytest.raises(jnrrdz.MalformedError, match=f"data/.zarray: {name}: {member}: found "):
        read_group(opened)


def test_chunks_of_other_axes_in_version_2(folder):
    form = FORMS["zarr-2"](folder)
    assert "data/.zarray: chunks: chunks of shape [32]" in refused(form, "data/.zarray", ("chunks",), [32])


def test_an_empty_image_has_no_virtual_levels(folder):
    form = FORMS["zarr-2"](folder)
    target = folder / "target"
    target.mkdir()
    document = {**form.documents["data/.zarray"], "shape": [0, 64]}
    group = jnrrdz.open_group(form.place(target, {"data/.zarray": text_of(document)}), virtual_levels=1)
    assert sorted(group.array_keys()) == ["data"]


def test_a_mark_that_no_pixel_can_have_masks_none(folder):
    found = dataset(FORMS["zarr-3"](folder), _FillValue=3.5, scale_factor=1)
    np.testing.assert_array_equal(found["data"][0, :5], np.arange(5))


def test_nan_of_pythons_writers_is_not_a_number(folder):
    form = FORMS["zarr-3"](folder)
    target = folder / "target"
    target.mkdir()
    document = form.documents["g/time/zarr.json"]
    text = json.dumps({**document, "fill_value": np.nan, "attributes": {"_FillValue": np.nan, "missing_value": 2.0}})
    assert "NaN" in text
    found = jnrrdz.open_group(form.place(target, {"g/time/zarr.json": text}))["g/time"]
    assert np.isnan(found.fill_value)
    assert found[...].tolist() == [0, 1, 2, 3]


def test_dimensions_without_names(folder):
    form = kerchunk(folder)
    target = folder / "target"
    target.mkdir()
    manifest = form.place(target, {"t/.zattrs": "{}"})
    with pytest.raises(jnrrdz.UnsupportedError, match=r"t/zarr\.json: dimension_names: dimensions without"):
        xr.open_dataset(manifest, engine="jnrrdz")
    assert jnrrdz.open_group(manifest)["t"].shape == (64, 64)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "a.json: not JSON"),
        ("[" * 100_000, "a.json: not JSON|nested"),
        ("[" * (DEEPEST + 2) + "]" * (DEEPEST + 2), "a.json: lists or objects nested more than"),
        ('{"a": ' * 500 + "1" + "}" * 500, "a.json: lists or objects nested more than"),
        (r'{"a": ["\ud800"]}', "a.json: a text with a half of a surrogate pair"),
        (b'{"a": "\xff"}', "a.json: not JSON"),
        ("1" * 5000, "a.json: not JSON"),
    ],
)
def test_text_that_is_refused(text, message):
    with pytest.raises(jnrrdz.MalformedError, match=message):
        parse_json(text, field="a.json")


def test_text_that_strict_json_cannot_hold():
    text = r'[NaN, Infinity, -Infinity, 1e999, -1e999, 1e-999, "\ud83d\ude00", 2]'
    assert parse_json(text) == ["NaN", "Infinity", "-Infinity", "Infinity", "-Infinity", 0.0, "\U0001f600", 2]
    depth = "[" * DEEPEST + "]" * DEEPEST
    assert parse_json(depth) == json.loads(depth)


def test_an_error_names_the_path():
    check = members({"a": object_of(members({"b": one_of("x", 3)}))})
    assert validate({"a": {"n": {"b": 3, "c": None}}}, check, "a.json") == {"a": {"n": {"b": 3, "c": None}}}
    for value, message in (
        ({}, "a.json: a: is missing"),
        ({"a": {"n": {"b": True}}}, "a.json: a.n.b: found True; 'x' or 3 is needed"),
        ({"a": {"n": []}}, "a.json: a.n: found []; an object is needed"),
        ([], "a.json: found []; an object is needed"),
    ):
        with pytest.raises(jnrrdz.MalformedError) as found:
            validate(value, check, "a.json")
        assert str(found.value) == message
