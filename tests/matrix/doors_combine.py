"""Doors that make manifests of manifests: merge, cube, convert."""

from dataclasses import replace

import jnrrdz
import numpy as np
import xarray as xr
from tests.matrix.doors_open import STORED, opened
from tests.matrix.view import of_dataset

TIME = r"(\d{8})"


CUBE = "data"
"""The variable of a cube, whatever that of the files is."""


def opened_cube(path):
    with xr.open_dataset(path, **STORED) as dataset:
        return of_dataset(dataset, CUBE)


def both(case):
    """Return the manifests of the two sources of a case."""
    return [case.index(day=0), case.index(day=1)]


def merge_new(case):
    out = case.output("merged.json")
    jnrrdz.merge(both(case), out, concat_dim="time", coord_from=TIME)
    return opened(out, case)


def merge_old(case):
    out = case.output("merged.json")
    jnrrdz.merge(both(case), out, concat_dim=case.view.dims[0], keep_order=True)
    return opened(out, case)


def expected_new(case):
    first, second = case.views
    return first.stacked(second, "time")


def expected_old(case):
    first, second = case.views
    joined = first.joined(second)
    is_of_names = first.dims[0] in {"band", "c"}
    return replace(
        joined, names=first.names + second.names if is_of_names else first.names
    )


def cube(case):
    out = case.output("cube.json")
    jnrrdz.cube(both(case), out, time_from=TIME)
    return opened_cube(out)


def cube_append(case):
    out = case.output("cube.parquet")
    first, second = both(case)
    jnrrdz.cube([first], out, time_from=TIME)
    jnrrdz.cube([second], out, time_from=TIME, append=True)
    return opened_cube(out)


def expected_cube(case):
    """Return the two sources along the time; a band without a name has its number."""
    stacked = expected_new(case)
    if "band" not in stacked.dims:
        pixels = np.expand_dims(stacked.pixels, 1)
        dims = ("time", "band", *stacked.dims[1:])
        stacked = replace(stacked, pixels=pixels, dims=dims)
    numbers = tuple(str(n + 1) for n in range(stacked.pixels.shape[1]))
    return replace(stacked, names=stacked.names or case.row.bands or numbers)


def convert(start, end):
    """Return a door: a manifest of one form, converted to another and opened."""

    def door(case):
        out = case.output(f"converted.{end}")
        jnrrdz.convert(case.index(start), out)
        return opened(out, case)

    return door
