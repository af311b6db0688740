"""What a user may ask of a scan, whatever the format.  A plain record."""

from dataclasses import dataclass, fields
from typing import Any, Literal, TypedDict

type PrecinctWindows = Literal["auto", "always", "never"]


class ScanChoices(TypedDict, total=False):
    """The members of `ScanOptions` beside `overviews`, as keyword arguments of the library's functions."""

    embedded: bool
    expand_palette: bool
    physical: bool
    sidecars: bool
    chain: str | None
    stack_timepoints: bool
    precinct_windows: PrecinctWindows | None
    allow_missing: bool


TREE_OPTIONS = ("chain", "stack_timepoints")
"""Choices that mean something for containers of blocks (N5) only."""


RIGHTS = ("allow",)
"""Choices that say what a scan may reach."""


def with_whole_tiles(choices: ScanChoices) -> ScanChoices:
    """Return choices for references of one range a chunk: JPEG 2000 tiles stay whole unless windows are asked for."""
    return {**choices, "precinct_windows": choices.get("precinct_windows") or "never"}


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

    allow: tuple[str, ...] = ()
    """Paths and URLs under which a header may name files that are not below its own folder; `*` for all."""

    allow_missing: bool = False
    """Take tiles whose files are not there for missing chunks, which read as the fill value."""

    def asked(self) -> dict[str, Any]:
        """Return the choices that differ from the defaults, as a manifest records them.

        What may be reached is no part of it: that is for whoever reads, not for the manifest, to say.
        """
        given = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {name: value for name, (value, usual) in given.items() if value != usual and name not in RIGHTS}
