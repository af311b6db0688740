"""What the axes of an NRRD mean, as names, attributes, coordinates and OME-Zarr.

May touch the layout and the model.  Vectors are turned here from the file's order to C order.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jnrrdz.core import ome
from jnrrdz.core.pyramid import axis_attributes
from jnrrdz.formats.nrrd.header import Header, Steps, axis_names, steps_of

type Attributes = dict[str, Any]
type Numbers = tuple[float, ...]

VARIABLE = "data"


@dataclass(frozen=True)
class Meaning:
    """The axes of one array, in C order."""

    names: tuple[str, ...]
    units: tuple[str | None, ...]
    steps: Steps | None

    @property
    def is_forward(self) -> bool:
        """Whether coordinates grow with indices, which OME-Zarr presumes."""
        return self.steps is None or all(step > 0 for step in self.steps.step)

    def scale(self, factors: Numbers) -> Numbers | None:
        """Return the distance of neighbours at a level, None where the header says none."""
        if self.steps is None:
            return None
        return tuple(step * factor for step, factor in zip(self.steps.step, factors, strict=True))

    def start(self, factors: Numbers) -> Numbers:
        """Return where the first element's centre is at a level."""
        if self.steps is None:
            return ()
        steps = zip(self.steps.start, self.steps.step, factors, strict=True)
        return tuple(start + (factor - 1) / 2 * step for start, step, factor in steps)

    def array_attributes(self, factors: Numbers) -> Attributes:
        """Return the attributes that tell coordinates."""
        return axis_attributes(self.names, self.units, self.scale(factors), self.start(factors))

    def single_attributes(self, shape: tuple[int, ...]) -> Attributes:
        """Return OME-Zarr's attributes of a group with the one array."""
        if not self.is_forward:
            return {}
        known = self.steps or Steps((1.0,) * len(shape), (0.0,) * len(shape), ())
        each = zip(self.names, known.step, self.units, known.start, strict=True)
        axes = [ome.Axis(name, step, unit, start) for name, step, unit, start in each]
        return ome.ome_attributes("", axes, [ome.Dataset(VARIABLE, shape)])


def meaning_of(header: Header) -> Meaning:
    """Return what the axes mean."""
    count = len(header.sizes)
    steps = steps_of(header.axes, count)
    units = steps.units if steps else tuple(unit or None for unit in header.axes.units) or (None,) * count
    turned = None if steps is None else Steps(steps.step[::-1], steps.start[::-1], steps.units[::-1])
    return Meaning(axis_names(header.axes, count)[::-1], units[::-1], turned)


def kept(attributes: Mapping[str, Any]) -> Attributes:
    """Return a header's keys as attributes, which hold neither NaN in vectors nor other things unspelt."""
    return {name: _kept(value) for name, value in attributes.items()}


def _kept(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _kept(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_kept(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value
