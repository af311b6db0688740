"""Read manifests with fsspec's `reference://` and zarr where jnrrdz cannot be imported: a line of JSON for each."""

import hashlib
import importlib.abc
import json
import sys

import numpy as np


class Blocked(importlib.abc.MetaPathFinder):
    """Refuses jnrrdz, installed or not."""

    def find_spec(self, name, path=None, target=None):  # noqa: ARG002  the import system's
        if name.partition(".")[0] == "jnrrdz":
            raise ModuleNotFoundError(f"{name} is blocked", name=name)


def main():
    """Read what stdin names: [[manifest, path of an array], ...]."""
    assert not any(name.partition(".")[0] == "jnrrdz" for name in sys.modules)
    sys.meta_path.insert(0, Blocked())
    import zarr  # noqa: PLC0415  with no way to jnrrdz
    from zarr.registry import get_codec_class  # noqa: PLC0415

    try:
        get_codec_class("tiff-tile")
    except ModuleNotFoundError:
        sys.stdout.write("blocked\n")  # its entry point is found, and leads to nothing
    for manifest, path in json.load(sys.stdin):
        options = {"fo": manifest, "remote_protocol": "file", "asynchronous": True}
        store = zarr.storage.FsspecStore.from_url("reference://", storage_options=options, read_only=True)
        try:
            pixels = zarr.open_array(store, path=path, mode="r")[...]
            found = {"digest": hashlib.sha256(np.ascontiguousarray(pixels)).hexdigest()}
        except Exception as error:  # noqa: BLE001  whatever it is, it is told
            found = {"error": repr(error)}
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
