"""Rational polynomial coefficients against rasterio, and numbers that are none."""

import math

import numpy as np
import pytest
import rasterio
import tifffile
from hypothesis import given
from hypothesis import strategies as st
from rasterio.rpc import RPC

from jnrrdz.errors import MalformedError
from jnrrdz.formats.rpc_files import parse_rpc_items
from jnrrdz.formats.tiff.georeference import COUNT, rpc_from_tag


def test_every_number_stands_under_gdals_name(tmp_path):
    numbers = [float(number) + 0.5 for number in range(COUNT)]
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.zeros((4, 4), "u1"), extratags=[(50844, "d", COUNT, numbers, True)])
    with rasterio.open(path) as image:
        theirs = image.rpcs
    mine = rpc_from_tag(numbers)
    assert {name.lower(): value for name, value in mine.items()} == theirs.to_dict()


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=COUNT, max_size=COUNT))
def test_items_that_rasterio_spells_give_the_same_numbers(numbers):
    mine = rpc_from_tag(numbers)
    items = RPC(**{name.lower(): value for name, value in mine.items()}).to_gdal()
    zero_errors = {name: 0.0 for name in ("ERR_BIAS", "ERR_RAND") if name not in items}  # rasterio drops these
    assert {**parse_rpc_items(items), **zero_errors} == mine


@pytest.mark.parametrize("numbers", [[], [0.0] * (COUNT - 1), [0.0] * (COUNT + 1), [math.nan] * COUNT])
def test_wrong_numbers_in_the_tag(numbers):
    with pytest.raises(MalformedError) as caught:
        rpc_from_tag(numbers)
    assert caught.value.field == "RPCCoefficientTag"


@pytest.mark.parametrize(
    ("name", "text"), [("LINE_OFF", ""), ("LINE_OFF", "x"), ("LINE_OFF", "1 2"), ("SAMP_DEN_COEFF", "1 2 3")]
)
def test_wrong_items(name, text):
    items = RPC(**{key.lower(): value for key, value in rpc_from_tag([1.0] * COUNT).items()}).to_gdal()
    with pytest.raises(MalformedError, match=name):
        parse_rpc_items({**items, name: text})


def test_errors_may_be_absent():
    items = RPC(**{key.lower(): value for key, value in rpc_from_tag([1.0] * COUNT).items()}).to_gdal()
    del items["ERR_BIAS"], items["ERR_RAND"]
    assert set(parse_rpc_items(items)) == set(items)
