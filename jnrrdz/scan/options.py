"""What a user may ask of a scan, whatever the format.  A plain record."""

from dataclasses import dataclass
from typing import Literal, TypedDict

type PrecinctWindows = Literal["auto", "always", "never"]


class ScanChoices(TypedDict, total=False):
    """The members of `ScanOptions` beside `overviews`, as keyword arguments of the library's functions."""

    embedded: bool
    expand_palette: bool
    physical: bool
    sidecars: bool
    chain: str | None
    stack_timepoints: bool
    probe: bool
    precinct_windows: PrecinctWindows | None


TREE_OPTIONS = ("chain", "stack_timepoints", "probe")
"""Choices that mean something for containers of blocks (N5) only."""


@dataclass(frozen=True)
class ScanOptions:
    """Choices that every scanner understands."""

    overviews: bool = True
    """Take the smaller versions of an image that the file holds."""

    embedded: bool = False
    """Take whole documents that the file carries: colour profile (ICC), XMP, EXIF."""

    expand_palette: bool = False
    """Read colours in place of the indices into a palette."""

    physical: bool = False
    """Read values as scale, offset and nodata say, in place of what is stored."""

    sidecars: bool = False
    """Look for files beside the source that say where it lies and what it means."""

    chain: str | None = None
    """Codecs that take the headers of N5 blocks: offset, pad, n5_default; by default what reads them right."""

    stack_timepoints: bool = False
    """Put the timepoints of a BigDataViewer container into an axis `t`."""

    precinct_windows: PrecinctWindows | None = None
    """Cut JPEG 2000 tiles into windows of precincts: large tiles whose packets are cheap to find (`auto`, the
    default), all, or none."""

    probe: bool = False
    """Ask for the size of every block where there is no listing (HTTP), a request each."""
