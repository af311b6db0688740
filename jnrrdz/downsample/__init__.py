"""Coarser levels from finer ones: pure functions of arrays, the same for any part of a level.

May touch numpy and errors.  What each method computes is told in docs/howto/virtual-levels.md.  An
element of a level depends on nothing but the elements of the source around it, and is computed by the
same operations in the same order wherever the cuts between chunks are.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.downsample.blocks import BLOCKS
from jnrrdz.downsample.kernels import KERNELS, filtered
from jnrrdz.downsample.values import held
from jnrrdz.errors import MalformedError, UnsupportedError

type Region = tuple[slice, ...]
"""A slice with start and stop along each axis."""

LARGEST_BLOCK = 1 << 30
"""Elements that one element may stand for: their exact sum fits into 64 bits."""

ORDERED = "biuf"
NUMBERS = "biufc"


@dataclass(frozen=True)
class Downsampling:
    """One way from a source to a level of it."""

    method: str
    factors: tuple[int, ...]
    source_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    missing: Any = None
    """The value of elements that hold nothing, beside NaN, which always means that."""

    def __post_init__(self) -> None:
        """Refuse what has no meaning, by the field that says so."""
        if self.method not in BLOCKS and self.method not in KERNELS:
            known = ", ".join(sorted([*BLOCKS, *KERNELS]))
            raise UnsupportedError(f"a downsampling method {self.method!r}; there are {known}", field="method")
        if len(self.factors) != len(self.source_shape) or any(factor < 1 for factor in self.factors):
            raise MalformedError(f"factors {self.factors} of shape {self.source_shape}", field="factors")
        if math.prod(self.factors) > LARGEST_BLOCK:
            raise UnsupportedError(f"factors {self.factors}; one element would stand for too many", field="factors")
        kinds = ORDERED if self.method in {"max", "min", "mode"} else NUMBERS
        if self.dtype.kind not in kinds:
            raise UnsupportedError(f"the {self.method} of {self.dtype.name}, which has none", field="method")
        object.__setattr__(self, "missing", held(self.missing, self.dtype))

    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the two shapes that a level may have: what does not fill an element dropped, or kept."""
        sizes = list(zip(self.source_shape, self.factors, strict=True))
        return tuple(max(size // f, min(size, 1)) for size, f in sizes), tuple(-(-size // f) for size, f in sizes)

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Refuse a shape that a level of this source cannot have."""
        least, most = self.shapes()
        if len(shape) != len(least) or any(
            size not in both for size, both in zip(shape, zip(least, most, strict=True), strict=True)
        ):
            raise MalformedError(
                f"a level of shape {shape} from {self.source_shape} by {self.factors}; it would be {least} or {most}",
                field="shape",
            )

    def window(self, region: Region) -> Region:
        """Return the part of the source that a region of the level depends on."""
        kernel = KERNELS.get(self.method)
        margins = [kernel.margin(factor) if kernel and factor > 1 else 0 for factor in self.factors]
        axes = zip(region, self.factors, self.source_shape, margins, strict=True)
        return tuple(slice(max(at.start * f - m, 0), min(at.stop * f + m, size)) for at, f, size, m in axes)

    def apply(self, source: NDArray[Any], region: Region) -> NDArray[Any]:
        """Return a region of the level from the elements of the source in its window."""
        window = self.window(region)
        if source.shape != tuple(at.stop - at.start for at in window):
            raise ValueError(f"elements of shape {source.shape} for the window {window}")
        if all(factor == 1 for factor in self.factors):
            return source
        gone = _missing(source, self.missing)
        if self.method in KERNELS:
            return filtered(source, gone, self, region)
        return self._by_blocks(source, gone, region)

    def _by_blocks(self, source: NDArray[Any], gone: NDArray[np.bool_] | None, region: Region) -> NDArray[Any]:
        """Return the reduction of each block; those that the source's end cuts are done by themselves."""
        reduce = BLOCKS[self.method]
        level = np.empty([at.stop - at.start for at in region], source.dtype)
        for target, blocks, sizes in _uniform(region, self.factors, self.source_shape):
            if level[target].size:
                none = None if gone is None else gone[blocks]
                level[target] = reduce(source[blocks], none, sizes, self.missing)
        return level


def _missing(source: NDArray[Any], missing: Any) -> NDArray[np.bool_] | None:
    """Return where there is nothing, None where that is nowhere."""
    gone = np.isnan(source) if source.dtype.kind in "fc" else None
    if missing is not None:
        marked = source == missing
        gone = marked if gone is None else gone | marked
    return gone if gone is not None and gone.any() else None


def _uniform(
    region: Region, factors: tuple[int, ...], shape: tuple[int, ...]
) -> list[tuple[Region, Region, tuple[int, ...]]]:
    """Return parts of a region in which all blocks are of one size: where in it, where in its window, the size."""
    parts: list[tuple[Region, Region, tuple[int, ...]]] = [((), (), ())]
    for at, factor, size in zip(region, factors, shape, strict=True):
        whole = min(max(size // factor, at.start), at.stop)  # blocks from here on are cut by the end
        first = at.start * factor
        axis = [(slice(0, whole - at.start), slice(0, whole * factor - first), factor)]
        if whole < at.stop:
            axis.append((slice(whole - at.start, None), slice(whole * factor - first, size - first), size % factor))
        parts = [((*t, to), (*b, of), (*s, step)) for t, b, s in parts for to, of, step in axis]
    return parts
