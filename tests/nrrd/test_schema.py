"""The shipped schema is one, and the fast check says what a general validator says of it."""

import json
from importlib import resources

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from jnrrdz.errors import MalformedError
from jnrrdz.formats.nrrd.tiling import check_tile

SCHEMA = json.loads(resources.files("jnrrdz.formats.nrrd").joinpath("jnrrd_tile.schema.json").read_text("utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)
LEAST = {"enabled": True, "dimensions": [0, 1, 2], "sizes": [256, 256, 64], "storage": "internal"}
NUMBERS = st.one_of(st.integers(-1, 9), st.booleans(), st.floats(allow_nan=False), st.none(), st.text(max_size=2))
VALUES = st.recursive(NUMBERS, lambda inner: st.lists(inner, max_size=3), max_leaves=6)
FILES = st.lists(st.fixed_dictionaries({}, optional={"indices": VALUES, "file": VALUES, "level": VALUES}), max_size=2)
WORDS = st.sampled_from(["internal", "external", "contiguous", "pad", "variable", "gzip", "lz4", "mode", "other"])


def is_fine(keys):
    try:
        check_tile(keys, "tile")
    except MalformedError:
        return False
    return True


def test_the_schema_is_one():
    Draft202012Validator.check_schema(SCHEMA)


@settings(max_examples=400, deadline=None)
@given(keys=st.dictionaries(st.sampled_from(sorted(SCHEMA["properties"])), st.one_of(VALUES, FILES, WORDS), max_size=5))
def test_the_fast_check_agrees_with_a_general_validator(keys):
    keys = LEAST | keys
    # a general validator takes 1.0 for a whole number; a table of offsets does not
    assert is_fine(keys) == (VALIDATOR.is_valid(keys) and not _has_whole_float(keys))


ANY_NUMBERS = {"padding_value", "metadata", "level_quality"}


def _has_whole_float(value):
    if isinstance(value, dict):
        return any(_has_whole_float(item) for key, item in value.items() if key not in ANY_NUMBERS)
    if isinstance(value, list):
        return any(_has_whole_float(item) for item in value)
    return isinstance(value, float)


SCALES = {"levels": 4, "level_scales": [[1, 1, 1], [2, 2, 1], [4, 4, 2], [8, 8, 4]]}


@pytest.mark.parametrize(
    "keys",
    [
        {"format": "contiguous", "offset_table": [1024, 16778240], "compression": "gzip"},
        {"storage": "external", "pattern": "tiles/volume_{z}_{y}_{x}.raw.gz", "base_dir": "/data/large_volume/"},
        {"levels": 4, "level_scales": [1, 2, 4, 8], "level_offsets": [1024, 2147484672, 2415919104, 2483027968]},
        SCALES,
        SCALES | {"level_tile_sizes": [[256, 256, 64], [128, 128, 32], [64, 64, 16], [32, 32, 8]]},
        SCALES | {"levels_stored": [0, 2], "levels_virtual": [1, 3]},
        SCALES | {"levels_stored": [0, 2]},
        {"level_quality": [{"psnr": 100.0, "rmse": 0.0}]},
        {"storage": "external", "files": [{"level": 0, "indices": [0, 0, 0], "file": "tiles/level0/0_0_0.raw"}]},
        {"storage": "external", "files": [], "pattern": "{i}"},
        {"metadata": [{"min": 0.1, "max": 255.0, "checksum": "a1b2c3d4"}]},
        {"overlap": [8, 8, 0], "edge_handling": "variable", "padding_value": 0.5, "compression_levels": [9, 6]},
        {"downsample_method": "gaussian"},
    ],
    ids=json.dumps,
)
def test_what_the_specification_shows_is_valid(keys):
    assert VALIDATOR.is_valid(LEAST | keys)
    check_tile(LEAST | keys, "tile")


@pytest.mark.parametrize("name", ["offset_table", "size_table"])
def test_a_million_numbers_take_no_time_to_speak_of(name):
    check_tile(LEAST | {name: list(range(1, 1_000_001))}, "tile")
    with pytest.raises(MalformedError, match="least") as caught:
        check_tile(LEAST | {name: [*range(1, 1000), -1, *range(1000)]}, "tile")
    assert (caught.value.field or "").startswith(f"tile:{name}[999]")
