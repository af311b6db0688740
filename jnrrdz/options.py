"""What you may ask of a scan and of a manifest, and how what you name is reached: plain records.

The library's functions take the members of these records as keyword arguments, which the typed dictionaries
here spell for editors and type checkers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypedDict

type PrecinctWindows = Literal["auto", "always", "never"]
type StorageOptions = Mapping[str, Any] | None


class ScanChoices(TypedDict, total=False):
    """The members of `ScanOptions` as keyword arguments."""

    overviews: bool
    embedded: bool
    expand_palette: bool
    physical: bool
    sidecars: bool
    chain: str | None
    stack_timepoints: bool
    precinct_windows: PrecinctWindows | None
    allow_missing: bool


class SourceAccess(TypedDict, total=False):
    """How a source is reached: members of `Access` as keyword arguments."""

    allow: Sequence[str]
    storage_options: StorageOptions


class AccessChoices(SourceAccess, total=False):
    """How a manifest and its sources are reached: the members of `Access` as keyword arguments."""

    source_options: StorageOptions


class WriteChoices(TypedDict, total=False):
    """The members of `WriteOptions` as keyword arguments."""

    format: str | None
    single_range: bool
    relative: bool
    overwrite: bool
    target_options: StorageOptions


class SourceChoices(SourceAccess, ScanChoices, total=False):
    """What `jnrrdz.scan` takes."""


class OpenChoices(AccessChoices, ScanChoices, total=False):
    """What `jnrrdz.open_store` and its like take: the choices are for a source that they scan."""


class IndexChoices(SourceAccess, ScanChoices, WriteChoices, total=False):
    """What `jnrrdz.index` takes."""


@dataclass(frozen=True)
class Access:
    """How what you name is reached, and what it may reach in turn."""

    allow: Sequence[str] = ()
    """Paths and URLs under which a manifest may name sources, and a source's header files, that are not where
    they may be anyway (below the folder that names them); `*` for all."""

    storage_options: StorageOptions = None
    """fsspec's options for the source or the manifest that you name."""

    source_options: StorageOptions = None
    """fsspec's options for the sources that a manifest names."""


@dataclass(frozen=True)
class WriteOptions:
    """What a manifest is to be, and how it is written."""

    format: str | None = None
    """`json`, `parquet` or `icechunk`; by default what the output's name ends in, else `json`."""

    single_range: bool = False
    """Refer to scattered chunks by the span that holds them: one range for every chunk."""

    relative: bool = False
    """Write the sources' URLs relative to the manifest."""

    overwrite: bool = False
    """Replace a manifest that exists."""

    target_options: StorageOptions = None
    """fsspec's options for the output."""


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

    allow_missing: bool = False
    """Take tiles whose files are not there for missing chunks, which read as the fill value."""

    def changed(self) -> dict[str, Any]:
        """Return the choices that differ from the defaults, as a manifest records them."""
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {name: value for name, (value, default) in values.items() if value != default}

    def whole_tiles(self) -> "ScanOptions":
        """Return the options for one range a chunk: JPEG 2000 tiles stay whole unless you ask for windows."""
        return replace(self, precinct_windows=self.precinct_windows or "never")


def with_choices[*Records](choices: Mapping[str, Any], *records: *Records) -> tuple[*Records]:
    """Return the records with those members replaced that keyword arguments name; what no record has is an error."""
    every: tuple[Any, ...] = records
    members = [{field.name for field in fields(record)} for record in every]
    if unknown := choices.keys() - set().union(*members):
        raise TypeError(f"unexpected keyword argument {min(unknown)!r}")
    changes = [{name: choices[name] for name in names & choices.keys()} for names in members]
    return tuple(replace(record, **change) for record, change in zip(every, changes, strict=True))
