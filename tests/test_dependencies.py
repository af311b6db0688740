"""What the package imports is what pyproject declares, and the core alone reads every format."""

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
import tifffile
from rasterio.transform import from_origin

import jnrrdz
from tests import writers

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {name: lines for name, lines in PROJECT["optional-dependencies"].items() if name not in {"all", "dev"}}

BY_OTHERS = {
    "cast-value-rs": "zarr imports it for the codec cast_value",
    "dask": "xarray imports it for chunked reading",
    "hdf5plugin": "VirtualiZarr imports it for filters of HDF5",
    "httptools": "uvicorn parses requests with it",
    "kerchunk": "an extra until its references are read",
    "s3fs": "fsspec imports it for s3://",
    "uvloop": "uvicorn runs on it",
}
"""What is declared and imported by no line of the package."""


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def names(lines):
    return {canonical(re.match(r"[A-Za-z0-9._-]+", line)[0]) for line in lines}


def imports():
    """Every module of the package with what it imports, `import_module` of a literal included."""
    for path in (ROOT / "jnrrdz").rglob("*.py"):
        modules = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                modules |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                modules.add(node.module)
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
                modules |= {arg.value for arg in node.args if isinstance(arg, ast.Constant)}
        yield path.relative_to(ROOT / "jnrrdz").as_posix(), modules


def imported():
    """The distributions that the package's modules import."""
    modules = set().union(*(modules for _, modules in imports()))
    tops = {module.partition(".")[0] for module in modules} - set(sys.stdlib_module_names) - {"jnrrdz"}
    homes = importlib.metadata.packages_distributions()
    return {canonical(homes[top][0]) for top in tops}


def test_what_is_imported_is_declared_and_the_other_way_round():
    declared = names(PROJECT["dependencies"]).union(*map(names, EXTRAS.values()))
    assert imported() | set(BY_OTHERS) == declared


@pytest.mark.parametrize(
    ("inner", "rooms"), [("zarr.core", ("codecs/", "store/")), ("zarr.abc.codec", ("codecs/", "store/"))]
)
def test_zarrs_inner_modules_are_known_to_two_rooms(inner, rooms):
    """import-linter sees other packages as a whole."""
    knowing = {path for path, modules in imports() if any(f"{name}.".startswith(f"{inner}.") for name in modules)}
    assert {path for path in knowing if not path.startswith(rooms)} == set()


def test_all_is_every_extra():
    (line,) = PROJECT["optional-dependencies"]["all"]
    assert sorted(re.fullmatch(r"jnrrdz\[(.*)\]", line)[1].split(",")) == sorted(EXTRAS)
    assert "jnrrdz[all]" in PROJECT["optional-dependencies"]["dev"]


PIXELS = np.arange(48 * 64, dtype="u1").reshape(48, 64)


def core_only(code, *args):
    """Run Python where no extra's packages can be imported, nor what only they bring."""
    absent = {"aiobotocore", "obstore", "obspec", "lxml", "PIL"}.union(*map(names, EXTRAS.values()))
    block = f"import sys; sys.modules |= dict.fromkeys({[name.replace('-', '_') for name in absent]})\n"
    return subprocess.run(
        [sys.executable, "-c", block + code, *map(str, args)], capture_output=True, text=True, check=False
    )


@pytest.fixture
def sources(tmp_path):
    """An image in every format, all of the same pixels."""
    tifffile.imwrite(tmp_path / "a.tif", PIXELS, tile=(16, 16), compression="deflate")
    (tmp_path / "a.j2k").write_bytes(imagecodecs.jpeg2k_encode(PIXELS, level=0, reversible=True, codecformat="j2k"))
    writers.gdal_image(tmp_path / "a.ntf", PIXELS, driver="NITF", transform=from_origin(10, 50, 0.1, 0.1))
    writers.n5_attributes(tmp_path / "a.n5", n5="4.0.0")
    writers.n5_dataset(tmp_path / "a.n5" / "a", PIXELS.T, [64, 48], "raw")
    (tmp_path / "a.nrrd").write_bytes(writers.nrrd_of(PIXELS) + PIXELS.tobytes())
    np.save(tmp_path / "pixels.npy", PIXELS)
    jnrrdz.tile(tmp_path / "pixels.npy", tmp_path / "a.jnrrd", tile=(16, 16))
    return tmp_path


READ = """
import numpy as np, jnrrdz
for source, group in (("tif", None), ("j2k", None), ("ntf", None), ("n5", "a"), ("nrrd", None), ("jnrrd", None)):
    jnrrdz.index(f"a.{source}", f"{source}.json")
    found = jnrrdz.open_dataset(f"{source}.json", group=group)["data"]
    np.testing.assert_array_equal(np.squeeze(found), np.load("pixels.npy"), err_msg=source)
print("read")
"""


def test_the_core_reads_every_format_from_json_manifests(sources, monkeypatch):
    monkeypatch.chdir(sources)
    done = core_only(READ)
    assert (done.stdout, done.returncode) == ("read\n", 0), done.stderr


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("jnrrdz.index('a.tif', 'a.parquet')", "parquet"),
        ("jnrrdz.index('a.tif', 'a.icechunk')", "icechunk"),
        ("jnrrdz.batch('items.parquet', '{id}.json')", "parquet"),
        ("jnrrdz.scan('s3://bucket/a.tif')", "s3"),
        ("jnrrdz.Parser()('a.tif', None)", "virtualizarr"),
        ("jnrrdz.batch(['a.tif'], 'x/{stem}.json', scheduler='local')", "dask"),
    ],
)
def test_an_extra_that_is_missing_is_named(sources, monkeypatch, code, extra):
    monkeypatch.chdir(sources)
    (sources / "items.parquet").write_bytes(b"PAR1")
    done = core_only(f"import jnrrdz\ntry:\n    {code}\nexcept jnrrdz.UnsupportedError as error:\n    print(error)")
    assert f"pip install 'jnrrdz[{extra}]'" in done.stdout, done.stderr
