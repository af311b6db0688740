"""Mistakes of new users, and all that each command says of them: what happened, where, what to do.

The lines are the specification: `HERE` is the working directory.
"""

import os
import socket
import subprocess
import sys

import imagecodecs
import numpy as np
import pytest
from rasterio.transform import from_origin

from tests import writers

READ = "TIFF, JPEG 2000, NITF, JNRRD, NRRD, HDF5, netCDF-3, FITS, Sentinel-2 product, Landsat product, DMR++"

MISTAKES = {
    "a wrong path": ("index nosuch.tif -o a.json", 1, "error: HERE/nosuch.tif: not found"),
    "a path below a file": (
        "info scene.json/0",
        1,
        "error: HERE/scene.json/0: not found: a folder in this path is a file",
    ),
    "a path that is to be served": ("serve nosuch.tif --port 0", 1, "error: nosuch.tif: not found"),
    "a host that has no such name": (
        "index http://nosuch.invalid/a.tif -o a.json",
        1,
        "error: http://nosuch.invalid/a.tif: no host has the name nosuch.invalid; check the address",
    ),
    "a typo in a scheme": (
        "index htp://localhost/a.tif -o a.json",
        1,
        (
            "error: htp://localhost/a.tif: no file system of fsspec reads addresses that begin with htp://; "
            "did you mean http://?"
        ),
    ),
    "a typo in a group": (
        "preview scene.json -o a.png --group 9",
        1,
        "error: scene.json: 9: no such group; there are 0, 1, 2",
    ),
    "a group of an image without levels": (
        "tile flat.tif -o a.jnrrd --tile 8,8 --group 1",
        1,
        "error: HERE/flat.tif: 1: no such group; the file has no groups, so name none",
    ),
    "an empty folder": (
        "index empty -o a.json",
        1,
        ("error: empty: the folder holds no image by its name; a pattern such as 'empty/*' takes files of any name"),
    ),
    "a manifest where an image is needed": (
        "index scene.json -o a.json",
        1,
        ("error: scene.json: is a manifest already; jnrrdz convert scene.json -o OUT writes it in another form"),
    ),
    "a folder of images": (
        "index images -o a.json",
        2,
        "Error: a.json is one output, and there are 2 sources; name a directory for OUT, such as out/.",
    ),
    "an unknown ending of the output": (
        "index flat.tif -o a.jsn",
        2,
        (
            "error: a.jsn: --output: a manifest does not end in .jsn; end it in .json, .parquet, .parq, .icechunk, or "
            "name its form with --format (format=)"
        ),
    ),
    "a PNG": (
        "index a.png -o a.json",
        1,
        f"error: HERE/a.png: this is PNG, which is not a format that jnrrdz reads; it reads {READ}",
    ),
    "a JPEG": (
        "index a.jpg -o a.json",
        1,
        f"error: HERE/a.jpg: this is JPEG, which is not a format that jnrrdz reads; it reads {READ}",
    ),
    "a text": (
        "index a.txt -o a.json",
        1,
        (
            "error: HERE/a.txt: the file starts with 68 65 6c 6c 6f 20 77 6f, which is not a format that jnrrdz reads; "
            f"it reads {READ}"
        ),
    ),
    "an empty file": ("index empty.tif -o a.json", 1, "error: HERE/empty.tif: the file is empty"),
    "a truncated TIFF": (
        "index cut.tif -o a.json",
        1,
        (
            "error: HERE/cut.tif: StripOffsets: the file is truncated: segment 0 begins at 360, and the file ends at "
            "300 (at byte 8)"
        ),
    ),
    "an output that exists": (
        "index flat.tif -o scene.json",
        1,
        "error: scene.json: exists already; --overwrite (overwrite=True) replaces it",
    ),
    "an output that is another's": (
        "preview flat.tif -o a.png --overwrite",
        1,
        (
            "error: a.png: exists and jnrrdz did not make it, so it is not replaced; name another output, "
            "or remove it yourself"
        ),
    ),
    "a folder that is not there": (
        "index flat.tif -o out/a.json",
        1,
        "error: out/a.json: the folder of this output does not exist; make it first",
    ),
    "no output": ("index flat.tif", 2, "Error: Missing option '-o' / '--output'."),
    "the source as the output": (
        "index flat.tif -o flat.tif",
        2,
        "Error: flat.tif is a source itself and would be replaced; name another OUT.",
    ),
    "a misspelt command": ("idnex flat.tif -o a.json", 2, "Error: No such command 'idnex'. Did you mean 'index'?"),
    "a misspelt option": (
        "index flat.tif -o a.json --overwriet",
        2,
        "Error: No such option '--overwriet'. (Did you mean one of: '--no-overviews', '--overwrite', '--verbose'?)",
    ),
    "an unknown form": (
        "index flat.tif -o a.json -f zarr",
        2,
        "Error: Invalid value for '-f' / '--format': 'zarr' is not one of 'json', 'parquet', 'icechunk'.",
    ),
    "a merge of neighbours": (
        r"merge flat.tif other_20240102.tif -o a.json --concat-dim time --coord-from ([a-z]+)",
        1,
        "error: 1 of 2 does not fit the others: other_20240102.tif lies elsewhere: x origin 515000, not 500000",
    ),
    "a merge of two types": (
        r"merge flat.tif float_20240103.tif -o a.json --concat-dim time --coord-from ([a-z]+)",
        1,
        "error: 1 of 2 does not fit the others: float_20240103.tif has float32 in data, not uint16",
    ),
    "a merge of levels and none": (
        r"merge flat.tif scene.tif -o a.json --concat-dim time --coord-from ([a-z]+)",
        1,
        "error: 1 of 2 does not fit the others: scene.tif holds 0/data, 1/data, 2/data, not data",
    ),
    "an expression without a group": (
        r"merge flat.tif flat.tif -o a.json --concat-dim time --coord-from \d{8}",
        2,
        r"error: --coord-from: \d{8} has no pair of ( ); put one round the part that is the value, such as '(\d{8})'",
    ),
    "an expression that finds nothing": (
        r"merge flat.tif stack.tif -o a.json --concat-dim time --coord-from (\d{8})",
        1,
        (
            r"error: 2 of 2 do not fit the others: flat.tif: --coord-from (\d{8}) finds nothing in its name | "
            r"stack.tif: --coord-from (\d{8}) finds nothing in its name"
        ),
    ),
    "a wrong band": (
        "preview flat.tif -o b.png --bands 4",
        2,
        "Error: --bands: there is no band 4; the image has 1 band",
    ),
    "an index out of range": (
        "preview stack.tif -o b.png --at band=9",
        2,
        "Error: --at: there is no band=9; band goes from 0 to 2",
    ),
    "an axis that is not there": (
        "preview flat.tif -o b.png --at t=5",
        2,
        "Error: --at: no axis t; the image has none besides y and x",
    ),
    "a report in a folder that is not there": (
        "batch flat.tif -o {stem}.a.json --report out/r.jsonl",
        1,
        "error: out/r.jsonl: the folder of this output does not exist; make it first",
    ),
    "a placeholder that is none": (
        "batch flat.tif -o {nome}.json",
        2,
        (
            "error: {nome}.json: --output: no placeholder {nome}; there are {stem}, {name}, {path}, {parent}, {index}, "
            "{id}, {collection}, {asset}"
        ),
    ),
    "a prefix that no source has": (
        "convert scene.json -o b.json --rewrite-prefix s3://old=s3://new",
        2,
        "error: --rewrite-prefix: no source begins with s3://old; one is HERE/scene.tif",
    ),
    "one size of a tile for two axes": (
        "tile flat.tif -o a.jnrrd --tile 8",
        2,
        "Error: --tile: 8 is 1 number for 2 axes (x,y)",
    ),
    "an image where a manifest is needed": (
        "refresh flat.tif",
        1,
        "error: flat.tif: this is not a manifest; jnrrdz index makes one of an image, refresh renews it",
    ),
    "no server": (
        "index http://127.0.0.1:PORT/a.tif -o a.json",
        1,
        (
            "error: http://127.0.0.1:PORT/a.tif: no connection to 127.0.0.1:PORT; check the address, and that a server "
            "answers there"
        ),
    ),
}


@pytest.fixture
def here(cog, run, tmp_path):
    """A working directory as a new user has it."""
    run("index", cog, "-o", "scene.json")
    pixels = np.arange(400, dtype="u2").reshape(20, 20)
    place = {"crs": "EPSG:32633", "transform": from_origin(500000, 5200000, 10, 10)}
    writers.geotiff(tmp_path / "flat.tif", pixels, **place)
    writers.geotiff(tmp_path / "float_20240103.tif", pixels.astype("f4"), **place)
    elsewhere = place | {"transform": from_origin(515000, 5200000, 10, 10)}
    writers.geotiff(tmp_path / "other_20240102.tif", pixels, **elsewhere)
    writers.geotiff(tmp_path / "stack.tif", np.stack([pixels] * 3), **place)
    (tmp_path / "cut.tif").write_bytes((tmp_path / "flat.tif").read_bytes()[:300])
    (tmp_path / "a.png").write_bytes(imagecodecs.png_encode(pixels))
    (tmp_path / "a.jpg").write_bytes(imagecodecs.jpeg8_encode(pixels.astype("u1")))
    (tmp_path / "a.txt").write_text("hello world, this is no image")
    (tmp_path / "empty.tif").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "images").mkdir()
    for name in ("a.tif", "b.tif"):
        writers.geotiff(tmp_path / "images" / name, pixels, **place)
    return tmp_path


@pytest.fixture
def no_port():
    """Return a port at which nobody answers."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield str(bound.getsockname()[1])


@pytest.mark.parametrize(("line", "code", "said"), MISTAKES.values(), ids=MISTAKES)
def test_what_is_said(here, run, no_port, line, code, said):  # noqa: PLR0913, PLR0917 - a row of the table
    before = sorted(here.iterdir())
    result = run(*line.replace("PORT", no_port).split(), code=code)
    told = result.stderr.replace(str(here), "HERE").replace(no_port, "PORT").splitlines()
    assert told[-1] == said
    assert result.stdout == ""
    assert [entry for entry in told[:-1] if entry.startswith("error")] == []
    assert sorted(here.iterdir()) == before


@pytest.mark.usefixtures("here")
def test_a_port_that_is_taken(run, no_port):
    result = run("serve", "flat.tif", "--port", no_port, code=1)
    assert result.stderr.splitlines()[-1] == (f"error: port {no_port} of 127.0.0.1 is taken; --port 0 takes a free one")


def test_credentials_that_are_missing(here, run, monkeypatch):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(here / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(here / "none"))
    result = run("index", "s3://bucket/a.tif", "--endpoint-url", "http://127.0.0.1:1", "-o", "a.json", code=1)
    assert "--no-sign-request" in result.stderr


@pytest.mark.parametrize(
    ("status", "said"),
    [(403, "permission denied"), (401, "permission denied"), (404, "not found"), (501, "the server failed")],
)
@pytest.mark.usefixtures("here")
def test_what_a_server_refuses(run, http_server, status, said):
    http_server.statuses["/a.tif"] = [status] * 20
    result = run("index", f"{http_server.url}/a.tif", "-o", "a.json", code=1)
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"error: {http_server.url}/a.tif: ")
    assert said in line


def test_a_file_that_changed(here, run):
    path = here / "scene.tif"
    path.write_bytes(path.read_bytes() + b"more")
    result = run("preview", "scene.json", "-o", "b.png", code=1)
    assert result.stderr.replace(str(here), "HERE").splitlines()[-1].startswith("error: HERE/scene.tif: ")
    assert "jnrrdz refresh" in result.stderr


def test_a_package_that_is_missing(here):
    code = "import sys; sys.modules['pyarrow'] = None; from jnrrdz.cli import main; main()"
    command = [sys.executable, "-c", code, "index", "flat.tif", "-o", "a.parquet"]
    result = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.endswith("pip install 'jnrrdz[parquet]'")
