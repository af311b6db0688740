"""The examiner's files read by others' readers, and hostile ones in a process of bounded memory."""

import json
import subprocess
import sys
from pathlib import Path

import fsspec
import numpy as np
import pytest
import zarr
from zarr.storage import FsspecStore

import jnrrdz
from tests.nrrd import examined_external, examined_hostile, examined_levels, examined_refused
from tests.nrrd.examiner import PACK, Case, Tiled, good, values

CORE = {"bytes", "gzip", "zstd"}
WHOLE = values((11, 7, 5), "int16")
PLAIN = [
    good(f"{packed}-{dims}", Tiled(levels=[WHOLE], tile=tile, dims=dims, compression=packed, padding=3))
    for packed in (None, "raw", "gzip", "zstd")
    for dims, tile in (((0, 1, 2), (4, 3, 2)), ((1,), (2,)))
]
NAMES = {"levels-scalar-raw", "virtual-max-int16", "pattern-xyz", "files-levels", "missing-padding"}
PLAIN += [case for case in (*examined_levels.CASES, *examined_external.CASES) if case.name in NAMES]
MEMBERS = {packed: pack for packed, pack in PACK.items() if packed != "raw"}
SCRIPT = """
import resource, sys
import jnrrdz, zarr
import jnrrdz.formats.nrrd.decode, jnrrdz.formats.nrrd.scan, numcodecs, imagecodecs
with open("/proc/self/status") as status:
    now = next(int(line.split()[1]) for line in status if line.startswith("VmSize")) * 1024
resource.setrlimit(resource.RLIMIT_AS, (now + 2 * 2**30, now + 2 * 2**30))
for source in sys.argv[1:]:
    try:
        jnrrdz.index(source, source + ".json")
        group = jnrrdz.open_group(source + ".json")
        for _, array in group.members(max_depth=None):
            if isinstance(array, zarr.Array):
                array[...]
        print("read", source)
    except jnrrdz.JnrrdzError as error:
        print("refused", str(error)[:300])
"""


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in PLAIN])
def test_stock_readers_read_what_has_core_codecs(case: Case, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    jnrrdz.index(case.make(tmp_path), out, **case.choices)
    stored = json.loads(out.read_text())["refs"]
    filesystem = fsspec.filesystem("reference", fo=str(out), asynchronous=True, remote_protocol="file")
    group = zarr.open_group(FsspecStore(filesystem, path="", read_only=True), mode="r", zarr_format=3)
    found = {name: array for name, array in group.members(max_depth=None) if isinstance(array, zarr.Array)}
    assert {json.dumps(codec["name"]) for name in found for codec in _codecs(stored, name)} <= {f'"{n}"' for n in CORE}
    assert set(found) == {name for name in case.pixels if not case.name.startswith("virtual") or name[0] == "0"}
    for name, array in found.items():
        np.testing.assert_array_equal(array[...], case.pixels[name])


def _codecs(stored: dict[str, str], name: str) -> list[dict[str, str]]:
    codecs: list[dict[str, str]] = json.loads(stored[f"{name}/zarr.json"])["codecs"]
    return codecs


def _declared(packed: str | None, side: int, folder: Path, **more: object) -> Path:
    """Give a file of 1 KB or so that declares one vast tile."""
    change = {"sizes": [side, side], "tile:sizes": [side, side], "tile:offset_table": None} | more
    tiled = Tiled(levels=[values((8, 8))], tile=(8, 8), compression=packed, change=change)
    folder.mkdir()
    return tiled.internal(folder)


def _inflating(packed: str, edges: str, folder: Path) -> Path:
    """Give a file of a tile that becomes 4 GB: a member over and over."""
    bomb = MEMBERS[packed](bytes(10**7)) * 400

    def spoil(blobs: list[bytes]) -> None:
        blobs[0] = bomb

    tiled = Tiled(levels=[WHOLE], tile=(4, 3, 2), compression=packed, edges=edges, spoil=spoil)
    inner = folder / f"inflating-{packed}-{edges}"
    inner.mkdir()
    return tiled.internal(inner)


def test_hostile_files_take_no_memory(tmp_path: Path) -> None:
    sources = [_declared(packed, 100_000, tmp_path / f"{packed}") for packed in (None, "gzip", "bzip2", "zstd", "lz4")]
    tiles = {"tile:sizes": [1, 1], "tile:size_table": None}
    sources.append(_declared(None, 8_000, tmp_path / "many", **tiles))
    pattern = {"tile:storage": "external", "tile:pattern": "b{i}", "tile:size_table": None, "tile:format": None}
    sources.append(_declared(None, 8_000, tmp_path / "far", **pattern, **{"tile:sizes": [1, 1]}))
    named = {"deep-lists", "deep-objects", "deep-path", "deep-indices", "quintillion-tiles", "ten-gigabytes"}
    for case in (*examined_refused.CASES, *examined_hostile.CASES):
        if case.name in named:
            (tmp_path / case.name).mkdir()
            sources.append(case.make(tmp_path / case.name))
    sources += [_inflating(packed, edges, tmp_path) for packed in MEMBERS for edges in ("pad", "variable")]
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, *map(str, sources)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    lines = ran.stdout.splitlines()
    assert len(lines) == len(sources)
    assert [line for line in lines if not line.startswith("refused")] == []
