"""The package as Python sees it: names, signatures, what pickles, what notebooks show."""

import ast
import inspect
import pickle
import pydoc
import re
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import MISSING, fields
from itertools import pairwise
from multiprocessing import get_context

import numpy as np
import pytest
import rasterio
import tifffile

import jnrrdz
from jnrrdz.commands.preview import PreviewOptions
from jnrrdz.commands.tile_pixels import TileOptions
from jnrrdz.options import (
    Access,
    BatchOptions,
    CubeOptions,
    ItemRules,
    MergeOptions,
    ScanOptions,
    ServeOptions,
    WriteOptions,
)
from tests import writers

FUNCTIONS = [name for name in jnrrdz.__all__ if name.islower()]
RECORDS = [Access, BatchOptions, CubeOptions, ItemRules, MergeOptions, PreviewOptions]
RECORDS += [ScanOptions, ServeOptions, TileOptions, WriteOptions]


def ran(code, *args):
    return subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def images(tmp_path):
    paths = [tmp_path / "a.tif", tmp_path / "b <i>.tif"]
    for number, path in enumerate(paths):
        tifffile.imwrite(path, np.full((40, 50), number, "u2"), tile=(16, 16))
    return paths


def test_dir_lists_the_public_names_and_nothing_else():
    assert sorted(dir(jnrrdz)) == sorted([*jnrrdz.__all__, "__version__"])
    assert all(getattr(jnrrdz, name) is not None for name in dir(jnrrdz))
    with pytest.raises(AttributeError, match="no attribute 'import_module'"):
        jnrrdz.import_module  # noqa: B018  asked for


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_plain(name):
    function = getattr(jnrrdz, name)
    assert inspect.isfunction(function)
    assert pickle.loads(pickle.dumps(function)) is function
    own = [item for item in inspect.signature(function).parameters.values() if item.kind is not item.VAR_KEYWORD]
    assert own
    assert function.__doc__.splitlines()[0] in pydoc.render_doc(function)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_parameter_is_told(name):
    function = getattr(jnrrdz, name)
    section = inspect.getdoc(function).partition("Parameters\n----------\n")[2]
    told = re.findall(r"^\*{0,2}(\w+)\n    \S", section, re.MULTILINE)
    assert told == list(inspect.signature(function).parameters)


@pytest.mark.parametrize("record", [jnrrdz.Parser, jnrrdz.Selection, *RECORDS])
def test_every_member_of_a_record_is_told(record):
    (body,) = ast.parse(inspect.getsource(record)).body
    for member, after in pairwise(body.body):
        if isinstance(member, ast.AnnAssign):
            assert isinstance(after, ast.Expr), member.target.id
            assert isinstance(after.value.value, str), member.target.id


KEYWORDS = {
    "batch": (BatchOptions, MergeOptions, ScanOptions, WriteOptions, ItemRules),
    "convert": (WriteOptions, Access),
    "cube": (CubeOptions, WriteOptions, Access),
    "index": (ScanOptions, WriteOptions, Access),
    "info": (ScanOptions, Access),
    "make_app": (ServeOptions, Access),
    "merge": (MergeOptions, WriteOptions, Access),
    "open_dataset": (ScanOptions, Access),
    "open_datatree": (ScanOptions, Access),
    "open_group": (ScanOptions, Access),
    "open_store": (ScanOptions, Access),
    "preview": (PreviewOptions, ScanOptions, Access),
    "refresh": (Access,),
    "scan": (ScanOptions, Access),
    "serve": (ServeOptions, Access),
    "stac_item": (ItemRules, ScanOptions, Access),
    "tile": (TileOptions,),
    "verify": (Access,),
    "write": (WriteOptions,),
}
"""The records whose fields are keywords of the public functions."""

NO_KEYWORD = {
    "access": "its fields are keywords",
    "named_by": "what a user names is named by no document",
}
NOT_FOR = {
    "index": {"source_options", "template_overrides"},  # of manifests
    "scan": {"source_options", "template_overrides"},
    "batch": {"names", "check"},  # of merges; a batch has its own
}


def keywords_of(name):
    members = {field.name: field for record in KEYWORDS[name] for field in fields(record)}
    return {key: field for key, field in members.items() if key not in NO_KEYWORD.keys() | NOT_FOR.get(name, set())}


def test_every_function_has_its_records():
    assert sorted(KEYWORDS) == sorted(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_keywords_have_the_names_and_defaults_of_the_records(name):
    parameters = inspect.signature(getattr(jnrrdz, name)).parameters
    for key, field in keywords_of(name).items():
        default = field.default if field.default_factory is MISSING else None
        default = inspect.Parameter.empty if default is MISSING else default
        assert parameters[key].kind is inspect.Parameter.KEYWORD_ONLY
        assert parameters[key].default == default, key


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_keyword_is_hidden_or_dropped(name):
    """Each reaches a record, or a function, under its own name; only xarray's pass by without one."""
    function = inspect.unwrap(getattr(jnrrdz, name))
    extra = [item.name for item in inspect.signature(function).parameters.values() if item.kind is item.VAR_KEYWORD]
    assert extra == (["xarray_options"] if name in {"open_dataset", "open_datatree"} else [])
    calls = [node for node in ast.walk(ast.parse(inspect.getsource(function))) if isinstance(node, ast.Call)]
    passed = {
        keyword.arg
        for call in calls
        for keyword in call.keywords
        if isinstance(keyword.value, ast.Name) and keyword.value.id == keyword.arg
    }
    assert keywords_of(name).keys() - passed == (PREVIEW if name == "preview" else set())


PREVIEW = {field.name for field in fields(PreviewOptions)}
"""Passed by their order."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_shared_keywords_are_told_alike(name):
    told = keyword_texts(name)
    for key in {field.name for field in fields(ScanOptions)} & told.keys():
        assert told[key] == keyword_texts("scan")[key], key


def keyword_texts(name):
    section = inspect.getdoc(getattr(jnrrdz, name)).partition("Parameters\n----------\n")[2]
    return dict(re.findall(r"^(\w+)\n((?:    .+\n?)+)", section, re.MULTILINE))


def test_names_stay_functions_whatever_was_imported_before(images, tmp_path):
    code = (
        "import jnrrdz, jnrrdz.formats.tiff.scan, jnrrdz.manifests.json, jnrrdz.batches.run, jnrrdz.commands.tile, sys;"
        "from jnrrdz import batch, scan, write;"
        "write(scan(sys.argv[1]), sys.argv[2]);"
        "print(batch(sys.argv[1], sys.argv[3]).ok, jnrrdz.batch(sys.argv[1], sys.argv[3], overwrite=True).ok)"
    )
    assert ran(code, str(images[0]), str(tmp_path / "a.json"), str(tmp_path / "b.json")) == "1 1\n"
    assert jnrrdz.open_group(tmp_path / "a.json")["data"].shape == (40, 50)


def test_importing_the_package_is_light():
    heavy = ["numpy", "xarray", "zarr", "fsspec", "click", "tifffile", "imagecodecs", "pyproj", "pyarrow"]
    loaded = ran("import jnrrdz, sys; dir(jnrrdz); print(*sys.modules)").split()
    assert not set(heavy) & set(loaded)


UNNEEDED = {"xarray", "zarr", "numcodecs", "dask", "pandas", "fsspec", "aiohttp", "pyarrow", "tifffile", "imagecodecs"}
UNNEEDED |= {"asyncio", "msgspec", "yarl"}


def test_indexing_a_local_tiff_imports_no_reader_of_pixels(tmp_path):
    image = tmp_path / "plain.tif"  # without the description by which tifffile finds its series
    tifffile.imwrite(image, np.full((40, 50), 7, "u2"), tile=(16, 16), metadata=None)
    for out in ("a.json", str(tmp_path / "a.json")):
        code = f"""
import os, sys
os.chdir({str(tmp_path)!r})
from jnrrdz.cli import cli
cli(["index", {str(image)!r}, "-o", {out!r}, "--overwrite"], standalone_mode=False)
print(*sorted({UNNEEDED | {"pyproj"}!r} & set(sys.modules)))
"""
        assert ran(code) == "\n"
    assert jnrrdz.open_group(tmp_path / "a.json")["data"].shape == (40, 50)


UNOPENED = {"dask", "scipy", "zarr", "numcodecs", "jnrrdz.store.store", "aiohttp", "yarl", "tifffile", "imagecodecs"}
UNOPENED |= {"pyproj", "jnrrdz.core.physical"}
UNOPENED |= {"jnrrdz.formats.scanning", "jnrrdz.formats.neighbours", "jnrrdz.manifests.in_place"}


def test_opening_a_dataset_imports_neither_zarr_nor_dask_nor_what_scans(tmp_path):
    pixels = np.arange(3 * 40 * 50, dtype="u2").reshape(3, 40, 50)
    place = {"crs": "EPSG:32633", "transform": rasterio.Affine(10, 0, 300000, 0, -10, 5000000)}
    jnrrdz.index(writers.geotiff(tmp_path / "a.tif", pixels, **place), tmp_path / "a.json")
    code = f"""
import sys, xarray
from jnrrdz.engine import JnrrdzBackend  # other engines, which xarray asks where this one is named, import dask
dataset = xarray.open_dataset(sys.argv[1], engine=JnrrdzBackend)
print(*sorted({UNOPENED!r} & set(sys.modules)))
print(*(int(dataset[axis][1]) for axis in ("band", "y", "x")))
"""
    assert ran(code, str(tmp_path / "a.json")) == "\n2 4999985 300015\n"


def test_our_own_function_asks_no_other_engine(tmp_path, images):
    jnrrdz.index(images[0], tmp_path / "a.json")
    code = """
import sys, jnrrdz
jnrrdz.open_dataset(sys.argv[1]), jnrrdz.open_datatree(sys.argv[1])
print(*sorted({"kerchunk", "rioxarray", "zarr"} & set(sys.modules)))
"""
    assert ran(code, str(tmp_path / "a.json")) == "\n"


def test_the_engine_costs_who_opens_other_files_no_zarr():
    """xarray imports every engine that is installed when it opens whatever file."""
    code = "import sys, jnrrdz.engine; print(*sorted({'zarr', 'fsspec', 'msgspec', 'jnrrdz.api'} & set(sys.modules)))"
    assert ran(code) == "\n"


def test_opening_a_manifest_imports_no_decoder_and_reading_it_its_own(tmp_path, images):
    jnrrdz.index(images[0], tmp_path / "a.json", codecs="proposal")
    code = """
import sys, jnrrdz
array = jnrrdz.open_group(sys.argv[1])["data"]
decoders = lambda: [name for name in sys.modules if name.startswith("jnrrdz.formats.") and "decode" in name]
print(decoders())
array[0, 0]
print(decoders())
"""
    assert ran(code, str(tmp_path / "a.json")).splitlines() == ["[]", "['jnrrdz.formats.tiff.decode']"]


def test_the_command_line_as_a_module():
    shown = subprocess.run(
        [sys.executable, "-m", "jnrrdz", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert shown.startswith("Usage: jnrrdz ")


def test_processes_scan_and_send_what_they_found(images):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        groups = list(pool.map(jnrrdz.scan, images))
    values = [jnrrdz.open_group(group)["data"][0, 0] for group in groups]
    assert values == [0, 1]


def test_an_unknown_keyword_is_a_type_error(images):
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        jnrrdz.scan(images[0], colour=True)


@pytest.mark.parametrize("name", ["index", "merge", "cube", "convert", "batch", "tile"])
def test_an_unknown_keyword_is_a_type_error_of_every_command(name, images, tmp_path):
    needed = {"tile": [16, 16]} if name == "tile" else {}
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        getattr(jnrrdz, name)(images[0], tmp_path / "out.json", colour=True, **needed)
    assert not (tmp_path / "out.json").exists()


def test_a_manifest_records_the_keywords_of_its_scan(images):
    group = jnrrdz.scan(images[0], overviews=False, physical=True)
    assert group.origin == {"options": {"overviews": False, "physical": True}}


def test_what_is_shown_is_short_and_escaped(images, tmp_path):
    group = jnrrdz.scan(images[1])
    done = jnrrdz.index(images[1], tmp_path / "b.json")
    batch = jnrrdz.batch([str(tmp_path / "none <i>.tif")], f"{tmp_path}/{{stem}}.json")
    verified = jnrrdz.verify(tmp_path / "b.json")
    assert "data" in repr(group)
    assert "(40, 50)" in repr(group)
    assert repr(verified).endswith("0 findings in 1 sources, 12 ranges, 8 chunks, 0 checksums")
    assert "1 failed" in repr(batch)
    for shown in (group, done, batch, verified):
        assert len(repr(shown)) < 500
        assert "<table>" in shown._repr_html_()
        assert "<i>" not in shown._repr_html_()
    assert "none &lt;i&gt;.tif" in batch._repr_html_()
