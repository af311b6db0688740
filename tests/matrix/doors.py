"""The table of doors: a new command or way to read joins by one line."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations

from tests.matrix import doors_combine, doors_open, doors_write
from tests.matrix.row import Case
from tests.matrix.view import View


def as_source(case: Case) -> View:
    """Return what the other reader sees in the source."""
    return case.view


@dataclass(frozen=True)
class Door:
    """A way from a source to pixels."""

    name: str
    """Such as `merge, new axis`."""

    go: Callable[[Case], View | None]
    """Goes through it; None says that there is nothing to compare."""

    parts: tuple[str, ...] = ("pixels", "dims", "place", "steps", "nodata", "names")
    """What the door shows: members of `view.PARTS`."""

    expect: Callable[[Case], View] = as_source
    """What it has to show."""


ALL = ("pixels", "dims", "place", "steps", "nodata", "names", "levels")
PIXELS = ("pixels",)
VALUES = ("values",)
ARRAYS = ("pixels", "levels")
PLAIN = ("pixels", "dims", "place", "nodata")
"""What Zarr's documents hold; names and coordinates come with jnrrdz."""

FORMS = ("json", "parquet", "icechunk")

OPEN = [
    *(Door(form, doors_open.by_form(form), ALL) for form in FORMS),
    Door("in place", doors_open.in_place, ("pixels", "dims", "levels")),
    Door("source", doors_open.by_source),
    Door("decoded", doors_open.decoded, VALUES, doors_open.expected_decoded),
    Door("physical", doors_open.physical, VALUES, doors_write.expected_values),
    Door("open_group", doors_open.open_group, ("pixels", "dims", "levels")),
    Door("open_datatree", doors_open.open_datatree, ALL),
    Door("Parser", doors_open.parser, PLAIN),
    Door("jnrrdz://", doors_open.fsspec_protocol, ARRAYS),
    Door("stock fsspec", doors_open.stock_fsspec, PIXELS),
    Door("serve", doors_open.serve, (*PLAIN, "levels"), doors_open.expected_served),
]
COMBINE = [
    Door("merge, new axis", doors_combine.merge_new, ALL, doors_combine.expected_new),
    Door("merge, old axis", doors_combine.merge_old, ALL, doors_combine.expected_old),
    Door("cube", doors_combine.cube, expect=doors_combine.expected_cube),
    Door(
        "cube --append", doors_combine.cube_append, expect=doors_combine.expected_cube
    ),
    *(
        Door(f"{a} to {b}", doors_combine.convert(a, b), ALL)
        for a, b in permutations(FORMS, 2)
    ),
    Door("refresh", doors_open.refresh, ALL, lambda case: case.views[1]),
]
META = ("dims", "place", "steps", "nodata", "names")
ITEM = ("place", "nodata", "names")
SHOW = [
    Door("verify --deep", doors_open.verify),
    Door("tile", doors_write.tile, PIXELS),
    Door("preview", doors_write.preview, PIXELS, doors_write.expected_picture),
    Door("info --json", doors_open.info_json, META, doors_open.expected_info),
    Door("info --stac", doors_open.info_stac, ITEM, doors_open.expected_stac),
]
RASTER = ("pixels", "place", "nodata", "names")
SAVE = [
    Door("to_zarr 3", doors_write.to_zarr(3)),
    Door("to_zarr 2", doors_write.to_zarr(2)),
    Door("to_netcdf", doors_write.to_netcdf),
    Door("to_raster", doors_write.all_bands, RASTER, doors_write.expected_raster),
    Door("to_raster, one band", doors_write.one_band, RASTER, doors_write.expected_one),
    Door(
        "to_raster, by name",
        doors_write.named_bands,
        RASTER,
        doors_write.expected_named,
    ),
    Door("cube to_zarr", doors_write.cube_to_zarr, expect=doors_combine.expected_cube),
    Door(
        "physical to_zarr",
        doors_write.physical_to_zarr,
        VALUES,
        doors_write.expected_values,
    ),
]
DOORS = [*OPEN, *COMBINE, *SHOW, *SAVE]
