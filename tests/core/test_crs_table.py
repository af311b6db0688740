"""The table of common CRS: each is the one that the installed PROJ has, and what says more goes PROJ's way."""

import json
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pyproj
import pytest
import rasterio

import jnrrdz
from jnrrdz.core import crs_geokeys, crs_table
from jnrrdz.core.crs import Crs, cf_attributes, crs_from_epsg, crs_from_geokeys, height_unit, is_north_first
from tests import writers


def without_usages(node):
    """Return PROJJSON without words on where and what for, which a new version of the register may change."""
    if isinstance(node, dict):
        gone = {"scope", "area", "bbox", "usages", "$schema", "remarks"}
        return {name: without_usages(value) for name, value in node.items() if name not in gone}
    return [without_usages(item) for item in node] if isinstance(node, list) else node


def alone(code):
    """Run code in a process of its own: in one that made other CRS, PROJ spells WGS 84 as a datum, not an ensemble."""
    lines = f"from tests.core.test_crs_table import *\n{code}"
    root = Path(__file__).parents[2]
    shown = subprocess.run([sys.executable, "-c", lines], cwd=root, capture_output=True, text=True, check=False)
    assert not shown.returncode, shown.stderr[-2000:]
    return shown.stdout


def test_each_crs_is_the_one_that_proj_has():
    assert alone("for code in crs_table.CODES: compare(code)\nprint('compared')") == "compared\n"


def compare(code):
    known, expected = crs_table.entry(code), pyproj.CRS.from_epsg(code)
    assert pyproj.CRS.from_wkt(known.wkt) == expected
    assert pyproj.CRS.from_json_dict(known.node) == expected
    assert without_usages(known.node) == without_usages(expected.to_json_dict())
    read, theirs = pyproj.CRS(known.wkt), pyproj.CRS(expected.to_wkt(version="WKT2_2019"))
    assert without_usages(read.to_json_dict()) == without_usages(theirs.to_json_dict())
    cf = {name: value for name, value in theirs.to_cf().items() if name != "crs_wkt"}
    assert known.cf == json.loads(json.dumps(cf))  # tuples are lists
    assert known.is_north_first == (expected.axis_info[0].direction == "north")


def test_the_same_proj_makes_the_same_table():
    text = zlib.decompress(crs_table.TABLE.read_bytes())
    made = alone("print(crs_table.made().decode(), end='')").encode()
    changed = [a[:80] for a, b in zip(text.splitlines(), made.splitlines(), strict=True) if a != b]
    if text.splitlines()[0] == made.splitlines()[0]:
        assert not changed
    else:
        pytest.skip(f"the table is of {text.splitlines()[0]}; of {made.splitlines()[0]} differ {changed}")


def test_what_stands_in_for_projs_units_is_its_metre():
    assert crs_geokeys._units()["9001"] == crs_geokeys.METRE  # noqa: SLF001  PROJ's own


@pytest.mark.parametrize("code", [32633, 3857, 4326, 5070])
def test_answers_are_those_of_proj(code):
    alone(f"compare_answers({code})")


def compare_answers(code):
    with_table = crs_from_epsg(code, "a")
    answers = [cf_attributes(with_table), height_unit(with_table), is_north_first(with_table)]
    crs_table.entry = lambda _: None
    cf_attributes.__globals__["_cf_attributes"].cache_clear()
    height_unit.cache_clear()
    without = crs_from_epsg(code, "a")
    assert pyproj.CRS(without.wkt) == pyproj.CRS(with_table.wkt)
    found = [cf_attributes(without), height_unit(without), is_north_first(without)]
    spelt = [json.loads(json.dumps([{**cf, "crs_wkt": ""}, *others])) for cf, *others in (found, answers)]
    assert spelt[0] == spelt[1]
    assert list(spelt[0][0]) == list(spelt[1][0])  # a manifest is the same file with the table and without


def test_another_wkt_under_a_code_is_not_the_tables():
    wkt = pyproj.CRS.from_epsg(32634).to_wkt()
    assert crs_table.entry_of("EPSG:32633", wkt) is None
    assert cf_attributes(Crs(wkt, "EPSG:32633"))["longitude_of_central_meridian"] == 21.0


INDEXED = """
import sys, jnrrdz
jnrrdz.index(sys.argv[1], sys.argv[1] + ".json", overwrite=True)
print("pyproj" in sys.modules)
"""


@pytest.mark.parametrize(
    ("crs", "is_needed"),
    [
        ("EPSG:32633", False),
        ("EPSG:4326", False),
        ("EPSG:3857", False),
        ("EPSG:21781", True),
        ("EPSG:32633+5773", True),
    ],
)
def test_indexing_asks_proj_for_what_the_table_has_not(tmp_path, crs, is_needed):
    place = {"crs": crs, "transform": rasterio.Affine(10, 0, 100, 0, -10, 50)}
    name = writers.geotiff(tmp_path / "a.tif", np.zeros((40, 50), "u1"), **place)
    shown = subprocess.run([sys.executable, "-c", INDEXED, str(name)], capture_output=True, text=True, check=True)
    assert shown.stdout == f"{bool(is_needed)}\n"
    attributes = json.loads(json.loads((tmp_path / "a.tif.json").read_text())["refs"]["spatial_ref/zarr.json"])
    with rasterio.open(name) as source:
        assert pyproj.CRS(attributes["attributes"]["crs_wkt"]) == pyproj.CRS(source.crs.to_wkt(version="WKT2_2019"))
    assert jnrrdz.open_dataset(tmp_path / "a.tif.json").sizes["x"] == 50


class Keys(dict):
    """The keys of a file as they are parsed."""

    revision = (1, 1)

    def __hash__(self):
        return id(self)


def test_axes_in_feet_are_not_the_tables():
    """A unit in the keys that is another one than the register's makes another CRS."""
    keys = {"GTModelTypeGeoKey": 1, "ProjectedCRSGeoKey": 32633}
    assert crs_from_geokeys(Keys(keys | {"ProjLinearUnitsGeoKey": 9001})) == crs_from_epsg(32633, "a")
    feet = crs_from_geokeys(Keys(keys | {"ProjLinearUnitsGeoKey": 9002}))
    assert feet.code is None
    assert pyproj.CRS(feet.wkt).axis_info[0].unit_name == "foot"


def test_a_height_beside_the_code_is_projs_whole(monkeypatch):
    """Halves of two editions of the register do not fit each other: the third dimension went lost."""
    keys = Keys({"GTModelTypeGeoKey": 1, "ProjectedCRSGeoKey": 32633, "VerticalGeoKey": 4979})
    asked = []
    monkeypatch.setattr(
        crs_table, "entry", lambda epsg, entry=crs_table.entry: asked.append(epsg) or entry(epsg)._replace(node={})
    )
    assert len(pyproj.CRS(crs_from_geokeys(keys).wkt).axis_info) == 3
    assert asked == [32633]
