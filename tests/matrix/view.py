"""What a reader sees of one image, in a record that two readers can be compared by.

This module imports nothing of jnrrdz: independent readers, the child process
without jnrrdz and the doors of jnrrdz all make their views by it.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np
import pyproj

PARTS = ("pixels", "values", "dims", "place", "steps", "nodata", "names", "levels")
"""What a view can be compared by."""

NO_PLACE = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
"""The affine of an image whose pixels have no other place than their indices."""


@dataclass(frozen=True, eq=False)
class View:
    """Pixels of the full resolution, and what they mean."""

    pixels: np.ndarray
    """In the stored type, in C order."""

    dims: tuple[str, ...] = ()
    """Names of the axes, such as `("band", "y", "x")`."""

    affine: tuple[float, ...] | None = None
    """Six numbers in the order of `affine.Affine`, None where there is no place."""

    epsg: int | None = None
    """The code of the reference system."""

    steps: dict[str, tuple[float, float]] = field(default_factory=dict)
    """First coordinate and step of axes without reference system."""

    nodata: float | None = None
    """The number that marks pixels without a value."""

    names: tuple[str, ...] = ()
    """Names of bands or channels."""

    levels: tuple[np.ndarray, ...] = ()
    """The coarser levels that the source holds, finest first."""

    scales: tuple[float, ...] = ()
    """The factor of each band, or one of all."""

    offsets: tuple[float, ...] = ()
    """The sum of each band, or one of all."""

    colours: tuple[str, ...] = ()
    """What each band is in a picture, as GDAL names it: `red`, `alpha`, `palette`."""

    table: np.ndarray | None = None
    """Red, green, blue and alpha of each index of a palette."""

    opacity: np.ndarray | None = None
    """Rows by columns, 0 where a pixel is hidden and 255 where it is shown."""

    def decoded(self) -> np.ndarray:
        """Return the values as CF decodes them: NaN for nodata, scaled."""
        values = self.pixels
        if self.nodata is not None:
            values = np.where(values == self.nodata, np.nan, values)
        if self.scales:
            values = values * of_bands(self.scales, values.ndim)
            values = values + of_bands(self.offsets, values.ndim)
        return values

    def stacked(self, other, dim):
        """Return this view and another along a new first axis."""
        pixels = np.stack([self.pixels, other.pixels])
        levels = [
            np.stack(pair) for pair in zip(self.levels, other.levels, strict=True)
        ]
        dims = (dim, *self.dims)
        return replace(self, pixels=pixels, dims=dims, levels=tuple(levels))

    def joined(self, other, axis=0):
        """Return this view and another one behind it along an axis."""
        pixels = np.concatenate([self.pixels, other.pixels], axis)
        pairs = zip(self.levels, other.levels, strict=True)
        levels = tuple(np.concatenate(pair, axis) for pair in pairs)
        return replace(self, pixels=pixels, levels=levels)


def of_bands(numbers, axes):
    """Return numbers of bands as an array that goes with pixels of so many axes."""
    return (
        np.array(numbers).reshape(-1, *[1] * (axes - 1))
        if len(numbers) > 1
        else numbers[0]
    )


def differences(seen: View, expected: View, parts: Collection[str]) -> list[str]:
    """Return a line for each part in which a view differs from the expected one."""
    checks = {
        "pixels": lambda: pixel_difference(seen.pixels, expected.pixels),
        "values": lambda: value_difference(seen.pixels, expected.pixels),
        "dims": lambda: unequal(seen.dims, expected.dims),
        "place": lambda: place_difference(seen, expected),
        "steps": lambda: step_difference(seen.steps, expected.steps),
        "nodata": lambda: nodata_difference(seen.nodata, expected.nodata),
        "names": lambda: unequal(seen.names, expected.names),
        "levels": lambda: level_difference(seen.levels, expected.levels),
    }
    lines = {part: checks[part]() for part in PARTS if part in parts}
    return [f"{part}: {line}" for part, line in lines.items() if line]


def unequal(seen, expected):
    return "" if seen == expected else f"{seen}, not {expected}"


def pixel_difference(seen, expected):
    if seen.shape != expected.shape:
        return f"shape {seen.shape}, not {expected.shape}"
    if seen.dtype.newbyteorder("=") != expected.dtype.newbyteorder("="):
        return f"type {seen.dtype}, not {expected.dtype}"
    has_nan = seen.dtype.kind in "fc"
    if np.array_equal(seen, expected, equal_nan=has_nan):
        return ""
    return f"{np.count_nonzero(seen != expected)} of {seen.size} differ"


def value_difference(seen, expected):
    """Compare numbers whose type may differ by some rounding of the last digit."""
    if seen.shape != expected.shape:
        return f"shape {seen.shape}, not {expected.shape}"
    precision = 1e-6 if seen.dtype.itemsize <= 4 or seen.dtype.kind == "c" else 1e-12
    if np.allclose(seen, expected, rtol=precision, atol=precision, equal_nan=True):
        return ""
    with np.errstate(invalid="ignore"):
        worst = np.nanmax(np.abs(seen.astype("c16") - expected))
    gaps = np.isnan(seen).sum(), np.isnan(expected).sum()
    return f"values differ by {worst:.9g} at most, {gaps[0]} of them NaN, not {gaps[1]}"


def place_difference(seen, expected):
    if (seen.affine is None) != (expected.affine is None):
        return f"affine {seen.affine}, not {expected.affine}"
    if seen.affine is not None and not np.allclose(
        seen.affine, expected.affine, rtol=1e-12, atol=0
    ):
        return f"affine {seen.affine}, not {expected.affine}"
    if seen.epsg != expected.epsg:
        return f"EPSG:{seen.epsg}, not EPSG:{expected.epsg}"
    return ""


def step_difference(seen, expected):
    message = f"{seen}, not {expected}"
    if seen.keys() != expected.keys():
        return message
    lines = [(seen[axis], line) for axis, line in expected.items()]
    is_same = all(np.allclose(*pair, rtol=1e-9, atol=1e-12) for pair in lines)
    return "" if is_same else message


def nodata_difference(seen, expected):
    if seen is None or expected is None:
        return unequal(seen, expected)
    same = np.array_equal(seen, expected, equal_nan=True)
    return "" if same else f"{seen}, not {expected}"


def level_difference(seen, expected):
    if len(seen) != len(expected):
        return f"{len(seen)}, not {len(expected)}"
    lines = [pixel_difference(*pair) for pair in zip(seen, expected, strict=True)]
    return "; ".join(f"{at}: {line}" for at, line in enumerate(lines, 1) if line)


def of_dataset(dataset, name) -> View:
    """Return the view of a variable of a dataset that was opened without decoding."""
    found = dataset[name]
    affine, epsg = place_of(dataset, found)
    dims = tuple(map(str, found.dims))
    steps = {} if affine else steps_of(dataset, dims)
    names = next((names_of(dataset, dim) for dim in ("band", "c") if dim in dims), ())
    nodata = found.attrs.get("_FillValue", found.encoding.get("_FillValue"))
    return View(found.to_numpy(), dims, affine, epsg, steps, nodata, names)


def place_of(dataset, variable):
    """Return the affine and the code of the grid mapping, as CF and GDAL have them."""
    grid = variable.attrs.get("grid_mapping", variable.encoding.get("grid_mapping"))
    if grid is None or grid not in dataset.variables:
        return None, None
    attributes = dataset[grid].attrs
    affine = None
    if "GeoTransform" in attributes:
        c, a, b, f, d, e = map(float, str(attributes["GeoTransform"]).split())
        affine = (a, b, c, d, e, f)
    wkt = attributes.get("crs_wkt")
    return affine, None if wkt is None else pyproj.CRS.from_wkt(wkt).to_epsg()


def steps_of(dataset, dims):
    lines = {}
    for dim in dims:
        if dim not in dataset.coords or dim in {"band", "time", "run"}:
            continue
        values = dataset[dim].to_numpy()
        if values.dtype.kind in "fiu" and values.size > 1:
            lines[dim] = (float(values[0]), float(values[1] - values[0]))
    return lines


def names_of(dataset, dim):
    """Return the labels along an axis; numbers that only count name nothing."""
    if dim not in dataset.coords:
        return ()
    labels = dataset[dim].to_numpy()
    return () if labels.dtype.kind in "iuf" else tuple(map(str, labels.tolist()))
