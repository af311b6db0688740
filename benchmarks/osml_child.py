"""Full reads of an image by osml-imagery-io, in the environment that it needs (zarr before 3.2): run by `jpeg2000.py`.

`python osml_child.py FILE FOLDER` answers each line of its input, `imread` or `zarr`, with one of its own:
the seconds that it took and a digest of the pixels, or `failed` and why.
"""

import hashlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from aws.osml import io
from aws.osml.io.multi_reference_fs import MultiReferenceFileSystem
from aws.osml.io.virtualizarr_parsers import OversightMLParser, write_tile_index
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore


def opened(path: Path, folder: Path) -> Any:
    """Return the array of an index that its own parser and writer made."""
    url = path.resolve().as_uri()
    index = folder / "osml.json"
    registry = ObjectStoreRegistry({"file://": LocalStore()})
    write_tile_index(OversightMLParser()(url, registry), str(index), zarr_format=3)
    files = MultiReferenceFileSystem(fo=str(index), asynchronous=True)
    group = zarr.open_group(zarr.storage.FsspecStore(files, read_only=True, path=""), mode="r")
    return group["0/data"]


def main() -> None:
    """Answer until the input ends."""
    path, folder = (Path(one) for one in sys.argv[1:])
    zarr.config.set({"threading.max_workers": 2})
    ways: dict[str, Callable[[], Any]] = {"imread": lambda: io.imread(str(path))}
    try:
        array = opened(path, folder)
        ways["zarr"] = lambda: array[...]
    except Exception as error:  # noqa: BLE001  whatever it is, it is the answer
        why = f"{type(error).__name__}: {error}".replace("\n", " ")
        ways["zarr"] = lambda: sys.exit(why)
    for line in sys.stdin:
        start = time.perf_counter()
        try:
            pixels = ways[line.strip()]()
        except BaseException as error:  # noqa: BLE001  likewise
            answer = f"failed {type(error).__name__}: {error}".replace("\n", " ")
        else:
            seconds = time.perf_counter() - start
            answer = f"{seconds} {hashlib.sha256(np.ascontiguousarray(pixels).tobytes()).hexdigest()}"
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
