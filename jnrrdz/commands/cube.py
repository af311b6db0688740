"""Files of an archive as one cube: found, scanned or read, put together, written once; more of them added to it.

A STAC item says when its files were taken and which band each is; elsewhere a name does, or the file's own metadata.
A file that is not there any more leaves its chunks missing.  A few files are read at a time, in threads; what stays
of each is its columns.
"""

import itertools
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import batched
from typing import Any

import numpy as np

from jnrrdz import api
from jnrrdz.batches.item import Found
from jnrrdz.batches.selection import Selection
from jnrrdz.commands.convert import write_elsewhere
from jnrrdz.commands.merge import METADATA, rule_of
from jnrrdz.core.arrays import VirtualGroup
from jnrrdz.core.coordinate import parsed
from jnrrdz.core.cube import Cube, Scene, scenes_of
from jnrrdz.errors import JnrrdzError, MalformedError, UnrepresentableError
from jnrrdz.formats import scanning
from jnrrdz.manifests.groups import group_from_manifest
from jnrrdz.manifests.manifest import format_of, manifest_form
from jnrrdz.options import Access, ScanOptions, WriteOptions
from jnrrdz.redact import record_repr
from jnrrdz.sources.base import is_absent

AT_ONCE = 64
THREADS = 8

LATEST = "latest"
RANKS = ("datetime", "updated", "created", "cloud", "modified")
"""What `by` may name: a later time comes before an earlier one, less cloud before more."""

type Source = str | os.PathLike[str] | Found | VirtualGroup


@dataclass(frozen=True)
class CubeOptions:
    """What a cube is made of, and how its axes are told."""

    time_from: str | None = None
    """Where a file's time stands: a regular expression whose one group finds it in the name, or `metadata`; by
    default what the STAC item says, and else the metadata."""

    band_from: str | None = None
    """A regular expression whose one group finds a file's band in its name; by default the key of the STAC asset,
    and else the names in the file."""

    by_day: bool = False
    """Take the files of one day (UTC) for one time."""

    by: Sequence[str] = ()
    """Which of two files that have the same pixels is taken: the first of `RANKS` in which they differ."""

    group_by_grid: bool = False
    """Put files of other grids into groups of their own."""

    append: bool = False
    """Add the files to the cube that the output is."""


@dataclass(frozen=True)
class CubeMade:
    """What was made."""

    output: str
    format: str
    files: int
    times: int
    bands: tuple[str, ...]
    groups: tuple[str, ...]
    chunks: int
    missing: int
    """Chunks that no file has."""
    absent: tuple[str, ...]
    """Files that are not there."""
    twins: tuple[str, ...]
    """Files that have the same pixels as another, `a and b`."""

    __repr__ = record_repr


def cube(  # noqa: PLR0913  what is taken, and how
    sources: Iterable[Source],
    out: str | os.PathLike[str],
    options: CubeOptions | None = None,
    *,
    stac: Sequence[str] = (),
    assets: Sequence[str] = (),
    form: WriteOptions | None = None,
    access: Access | None = None,
) -> CubeMade:
    """Write files of many dates, bands and places as one dataset with the axes time, band, y and x.

    `sources` are images, manifests, groups, or what a selection finds; `stac` are items, collections, searches or
    tables, of which `assets` says what is taken.
    """
    wanted, output, reach = options or CubeOptions(), form or WriteOptions(), access or Access()
    target = os.fspath(out)
    unknown = [name for name in wanted.by if name not in RANKS]
    if unknown:
        raise MalformedError(f"{', '.join(unknown)}; there are {', '.join(RANKS)}", field="--by")
    made, absent = Cube(wanted.group_by_grid, bool(wanted.by)), []
    if wanted.append:
        for scene in scenes_of(_group(target, reach), target):
            made.add(_ranked(scene))
    found = itertools.chain(
        sources, Selection((), stac=stac, assets=assets).found(lambda _: reach.storage_options, reach.allow)
    )
    teller = _Teller(wanted)
    with ThreadPoolExecutor(THREADS) as pool:
        for some in batched(found, AT_ONCE):
            for source, group in zip(some, pool.map(lambda one: _read(one, reach), some), strict=True):
                if group is None:
                    absent.append(_name(source))
                else:
                    made.add(teller.scene(source, group))
    built = made.finish()
    write_elsewhere(built.group, target, output)
    groups = [name for name, child in built.group.children.items() if isinstance(child, VirtualGroup)]
    return CubeMade(
        *(target, output.format or format_of(target), len(built.names), built.times, built.bands, tuple(groups)),
        *(built.chunks, built.missing, tuple(absent), built.twins),
    )


def _ranked(scene: Scene) -> Scene:
    """Return a scene of a cube that is there, before which anything new comes."""
    return Scene(scene.name, scene.time, scene.group, scene.bands, (0,))


def _name(source: Source) -> str:
    if isinstance(source, VirtualGroup):
        return source.sources[0].url if source.sources else "a group"
    return source.url if isinstance(source, Found) else os.fspath(source)


def _read(source: Source, access: Access) -> VirtualGroup | None:
    """Return what a file or manifest holds, None where the file is not there."""
    if isinstance(source, VirtualGroup):
        return source
    try:
        if isinstance(source, Found):
            own = replace(access, named_by=source.named_by)
            return scanning.scan(source.url, ScanOptions(overviews=False), own).group
        return _group(os.fspath(source), access)
    except JnrrdzError as error:
        if is_absent(error):
            return None
        raise


def _group(name: str, access: Access) -> VirtualGroup:
    if manifest_form(name) is None:
        return scanning.scan(name, ScanOptions(overviews=False), access).group
    manifest = api.open_stored(name, access=access).manifest
    return group_from_manifest(manifest, allow=access.allow, source_options=access.source_options)


class _Teller:
    """Says which time and band each file is."""

    def __init__(self, options: CubeOptions) -> None:
        self.options = options
        self.rule = None if options.time_from is None else rule_of(options.time_from)
        self.metadata = rule_of(METADATA)
        self.band: re.Pattern[str] | None = None
        if options.band_from is not None:
            try:
                self.band = re.compile(options.band_from)
            except re.error as error:
                raise MalformedError(f"not a regular expression: {error}", field="--band-from") from error
            if self.band.groups != 1:
                message = f"{self.band.groups} groups in {options.band_from!r}; one finds the band"
                raise MalformedError(message, field="--band-from")

    def scene(self, source: Source, group: VirtualGroup) -> Scene:
        """Return a file as a scene."""
        name = _name(source)
        told: Mapping[str, Any] = dict(source.told) if isinstance(source, Found) else {}
        try:
            time = self._time(name, group, told)
            return Scene(name, time, group, self._bands(name, source), self._rank(group, told, time))
        except UnrepresentableError as error:
            raise error.at(url=name) from error.__cause__

    def _time(self, name: str, group: VirtualGroup, told: Mapping[str, Any]) -> np.datetime64:
        stated = told.get("datetime") or told.get("start_datetime")
        if self.rule is None and stated is not None:
            text = stated.isoformat() if isinstance(stated, datetime) else str(stated)
        else:
            text = (self.rule or self.metadata).text(name, group)
        (time,) = parsed([text], "date")
        return np.datetime64(time, "D") if self.options.by_day else time

    def _bands(self, name: str, source: Source) -> tuple[str, ...]:
        if self.band is not None:
            match = self.band.search(name)
            if match is None or not match[1]:
                raise UnrepresentableError(f"--band-from {self.band.pattern!r} finds nothing in its name")
            return (match[1],)
        names = dict(source.names) if isinstance(source, Found) else {}
        return (names["asset"],) if "asset" in names else ()

    def _rank(self, group: VirtualGroup, told: Mapping[str, Any], time: np.datetime64) -> tuple[Any, ...]:
        """Return what orders files that have the same pixels, all of them above what is in a cube already."""
        modified = group.sources[0].modified or "" if group.sources else ""
        values: dict[str, Callable[[], Any]] = {
            "datetime": lambda: str(told.get("datetime") or time),
            "updated": lambda: str(told.get("updated") or told.get("created") or modified),
            "created": lambda: str(told.get("created") or modified),
            "modified": lambda: modified,
            "cloud": lambda: -float(told.get("eo:cloud_cover", 100)),
        }
        return (1, *(values[name]() for name in self.options.by))
