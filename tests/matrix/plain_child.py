"""Reads what jnrrdz wrote or serves, in a process that cannot import jnrrdz.

Requests are pickled to stdin, each a function of this module and its arguments;
answers are pickled to stdout: `(True, result)` or `(False, text of the error)`.
"""

import importlib.abc
import pickle
import sys
import warnings


class Blocked(importlib.abc.MetaPathFinder):
    """Refuses jnrrdz, installed or not."""

    def find_spec(self, name, path=None, target=None):  # noqa: ARG002  imports
        if name.partition(".")[0] == "jnrrdz":
            raise ModuleNotFoundError(f"{name} is blocked", name=name)


def references(manifest, array):
    """Return the pixels of an array of a JSON manifest, by fsspec and zarr."""
    import zarr  # noqa: PLC0415  with no way to jnrrdz

    options = {"fo": manifest, "remote_protocol": "file", "asynchronous": True}
    store = zarr.storage.FsspecStore.from_url(
        "reference://", storage_options=options, read_only=True
    )
    return zarr.open_array(store, path=array, mode="r")[...]


def arrays(url, paths):
    """Return the pixels of arrays of plain Zarr, by their paths."""
    import zarr  # noqa: PLC0415  the same

    group = zarr.open_group(url, mode="r")
    return [group[path][...] for path in paths]


def dataset(path, engine, group, name):
    """Return the view of a variable of a Zarr store or a netCDF file."""
    import xarray  # noqa: PLC0415  the same
    from tests.matrix.view import of_dataset  # noqa: PLC0415  the same

    options = {"mask_and_scale": False, "decode_times": False, "group": group or None}
    with xarray.open_dataset(path, engine=engine, **options) as opened:
        return of_dataset(opened.load(), name)


def main():
    """Answer requests until stdin ends."""
    sys.meta_path.insert(0, Blocked())
    warnings.simplefilter("ignore")
    answers, sys.stdout = sys.stdout.buffer, sys.stderr
    while True:
        try:
            name, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = True, globals()[name](*arguments)
        except Exception as error:  # noqa: BLE001  whatever it is, the test reports it
            answer = False, repr(error)
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    main()
