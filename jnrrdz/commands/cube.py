"""Files of an archive as one cube: found, scanned or read, put together, written once; more of them added to it.

A STAC item says when its files were taken and which band each is; elsewhere a name does, or the file's own metadata.
A file that is not there any more leaves its chunks missing.  A few files are read at a time, in threads; what stays
of each is its columns.
"""

import itertools
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import batched
from typing import TYPE_CHECKING, Any

import numpy as np

from jnrrdz import api
from jnrrdz.batches.item import Found
from jnrrdz.batches.selection import Selection
from jnrrdz.batches.stac import IMAGE
from jnrrdz.batches.stac_bands import BANDS, with_bands
from jnrrdz.commands.convert import write_elsewhere
from jnrrdz.commands.first_chunks import FirstChunks
from jnrrdz.core.coordinate import METADATA, parsed, rule_of
from jnrrdz.core.cube import Built, Cube, CubeGroup, Scene, require_unchanged
from jnrrdz.core.cube_growth import Extension, extension, scenes_of
from jnrrdz.core.json_schema import is_number
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import JnrrdzError, MalformedError, UnrepresentableError
from jnrrdz.formats import scanning
from jnrrdz.formats.products.assemble import images_of
from jnrrdz.formats.products.product import PRODUCT
from jnrrdz.lazy import library
from jnrrdz.manifests.atomic import check_replaceable, locate, writing
from jnrrdz.manifests.groups import ORIGIN, group_from_manifest
from jnrrdz.manifests.manifest import (
    Manifest,
    form_module,
    format_of,
    load_outline,
    manifest_form,
    split_version,
    updating,
)
from jnrrdz.manifests.turns import Turn, repeated
from jnrrdz.options import (
    Access,
    CubeOptions,
    ScanOptions,
    StorageOptions,
    WriteOptions,
)
from jnrrdz.redact import record_repr
from jnrrdz.sources.faults import is_absent

if TYPE_CHECKING:
    from jnrrdz.commands import stac_collection
else:
    # few cubes are described in STAC
    stac_collection = library("jnrrdz.commands.stac_collection")

NUMBERED = re.compile(r"b\d+")
"""Names that an item gives to bands that have none."""

CLOUD_COVER = "eo:cloud_cover"
"""STAC's name of the percentage of a scene that clouds cover."""

AT_ONCE = 64
THREADS = 8
SHOWN = 5
"""Groups that a warning names."""

RANKS = ("datetime", "updated", "created", "cloud", "modified")
"""What `by` may name."""

EXTENDED = ("parquet", "icechunk")
"""Forms of manifests that grow in place."""

type Source = str | os.PathLike[str] | Found | VirtualGroup


@dataclass(frozen=True)
class CubeMade:
    """What was made; of a cube that grew in its place, what it got."""

    output: str
    """The manifest that was written."""
    format: str
    """Its form: `json`, `parquet` or `icechunk`."""
    files: int
    """How many files were taken."""
    times: int
    """How many times the axis `time` got."""
    bands: tuple[str, ...]
    """The bands of all groups, by name."""
    groups: tuple[str, ...]
    """A group for each resolution; empty text is the root."""
    chunks: int
    """How many chunks the files have."""
    missing: int
    """Chunks that no file has."""
    absent: tuple[str, ...]
    """Files that are not there."""
    twins: tuple[str, ...]
    """Files that have the same pixels as another, `a and b`."""
    grids: tuple[CubeGroup, ...] = ()
    """What each group holds, and why it is a group of its own; of a cube that grew, what it got."""
    rewritten: str | None = None
    """Why a cube was written anew, although files were only to be added to it."""

    __repr__ = record_repr


def cube(  # noqa: PLR0913  the signature is the documentation
    sources: Iterable[Source],
    out: str | os.PathLike[str],
    *,
    stac: Sequence[str] = (),
    assets: Sequence[str] = (),
    alternate: str | None = None,
    time_from: str | None = None,
    band_from: str | None = None,
    by_day: bool = False,
    by: Sequence[str] = (),
    group_by_grid: bool = False,
    append: bool = False,
    stac_out: str | None = None,
    collection: str = "",
    check: bool = True,
    format: str | None = None,
    single_range: bool = False,
    relative: bool = False,
    overwrite: bool = False,
    keep_query: Sequence[str] = (),
    target_options: StorageOptions = None,
    allow: Sequence[str] = (),
    storage_options: StorageOptions = None,
    source_options: StorageOptions = None,
    template_overrides: Mapping[str, str] | None = None,
) -> CubeMade:
    """Write files of many dates, bands and places as one dataset with the axes time, band, y and x.

    Parameters
    ----------
    sources
        Images, manifests, virtual groups, or what a selection finds.
    out
        The path or URL of the manifest to write, or to add to.
    stac
        STAC items, collections, searches or tables, whose assets are taken too.
    assets
        The keys of the assets, and the bands of products, that are taken; all images
        without it.
    alternate
        The name of the alternate location that assets are read at, such as `s3`.
    time_from
        A file's time: a regular expression whose one group finds it in the name, or
        `metadata`; by default the STAC item's, and else the metadata's.
    band_from
        A regular expression whose one group finds a file's band in its name; by default
        the key of the STAC asset, and else the names in the file.
    by_day
        Give the files of one day (UTC) one time.
    by
        Which of two files that have the same pixels is taken: the first of `datetime`,
        `updated`, `created`, `cloud` and `modified` in which they differ. A later time
        comes before an earlier one, less cloud before more.
    group_by_grid
        Put files of other grids into separate groups.
    append
        Add the files to the cube `out`.
    stac_out
        A file for a STAC collection of which the cube is an asset.
    collection
        The id of that collection; by default the name of the cube.
    check
        Decode one chunk of each array, of the files that are added, before the manifest
        is written.
    format
        `json`, `parquet` or `icechunk`; by default by the ending of the output's name,
        else `json`.
    single_range
        Refer to scattered chunks by the span that holds them: one range for every
        chunk.
    relative
        Write the sources' URLs relative to the manifest.
    overwrite
        Replace a manifest that exists.
    keep_query
        Query parameters that name the file and are no secret, which the manifest then
        records; `*` for all. By default only versions of objects are recorded
        (`versionId`, `generation`).
    target_options
        fsspec's options for the output.
    allow
        Paths and URLs under which a manifest may name sources, and a source its data
        files, that are outside the folder of the file that names them; `*` for all.
    storage_options
        fsspec's options for the source or the manifest that you name.
    source_options
        fsspec's options for the sources that a manifest names.
    template_overrides
        Values for the templates of a manifest's URLs, by their names: `{"base":
        "s3://bucket/scenes/"}` for `{{base}}a.tif`; by default the manifest's own.
    """
    options = CubeOptions(
        time_from=time_from,
        band_from=band_from,
        by_day=by_day,
        by=by,
        group_by_grid=group_by_grid,
        append=append,
        stac_out=stac_out,
        collection=collection,
        check=check,
    )
    form = WriteOptions(
        format=format,
        single_range=single_range,
        relative=relative,
        overwrite=overwrite,
        keep_query=keep_query,
        target_options=target_options,
    )
    access = Access(
        allow=allow,
        storage_options=storage_options,
        source_options=source_options,
        template_overrides=template_overrides,
    )
    target = os.fspath(out)
    unknown = [name for name in by if name not in RANKS]
    if unknown:
        raise MalformedError(f"{', '.join(unknown)}; there are {', '.join(RANKS)}", field="--by")
    if stac_out is not None:
        replaces = stac_collection.is_ours if overwrite else None
        check_replaceable(locate(stac_out, target_options), replaces)
    selected = Selection((), stac=stac, assets=assets, alternate=alternate).found(
        lambda _: storage_options, access.allow
    )
    first_chunks = FirstChunks(access)
    files = _Files(itertools.chain(sources, selected), _Teller(options, assets), access, first_chunks)
    made = Cube(group_by_grid, bool(by))
    own = target_options
    if own is None:
        own = storage_options
    with updating(target, own) if append else nullcontext() as turn:
        if turn is not None:
            whole = _appended(made, files, target, form, turn, check=check)
        else:
            files.add_to(made)
            built = made.finish()
            checked = first_chunks if check else None
            write_elsewhere(built.group, target, form, checked)
            whole = files.made(built, target, form)
        _warn_of_splits(whole.grids)
        if stac_out is not None:
            repeated(partial(_write_collection, whole, options, form, own))
    return whole


def _write_collection(
    made: CubeMade,
    options: CubeOptions,
    form: WriteOptions,
    own: StorageOptions,
) -> None:
    """Write the STAC collection of a cube, as the cube is once it is its turn."""
    place = locate(str(options.stac_out), form.target_options)
    with writing(place) as turn:
        if not place.is_local:
            turn.look(place.fs, place.path)
        manifest = load_outline(made.output, storage_options=own)
        document = stac_collection.cube_collection(
            group_from_manifest(manifest, outline=True),
            made.output,
            made.format,
            files=len(manifest.sources),
            name=options.collection,
        )
        stac_collection.write_collection(document, str(options.stac_out), form)


def _warn_of_splits(grids: Sequence[CubeGroup]) -> None:
    """Warn where files of what looks like one grid are in several groups."""
    for name in dict.fromkeys(one.split_from for one in grids if one.split_from is not None):
        parts = [one for one in grids if name in {one.name, one.split_from}]
        shown = " | ".join(map(str, parts[:SHOWN]))
        more = f" | and {len(parts) - SHOWN} more" if len(parts) > SHOWN else ""
        warnings.warn(
            f"what looks like one grid is in {len(parts)} groups, since their chunks are stored in other ways: "
            f"{shown}{more}; open each with group=",
            stacklevel=3,
        )


def _appended(  # noqa: PLR0913  what is added, and to what
    made: Cube,
    files: "_Files",
    target: str,
    form: WriteOptions,
    turn: Turn,
    *,
    check: bool,
) -> CubeMade:
    """Add files to a cube: behind it where they are later than all that it has, else write it anew."""
    own = form.target_options if form.target_options is not None else files.access.storage_options
    manifest = load_outline(target, storage_options=own)
    if manifest.form == "icechunk":
        _, turn.version = split_version(str(manifest.url))
    output = _as_before(form, manifest)
    old = group_from_manifest(manifest, outline=True)
    for scene in scenes_of(old, target, last=True):
        made.add(_ranked(scene))
    files.add_to(made)
    built = made.finish()
    if not files.count:
        return files.made(replace(built, times=0, chunks=0, missing=0), target, output)
    turn.begin()
    recorded = {record.url: record for record in manifest.sources}
    for record in built.group.sources:
        require_unchanged(recorded.get(record.url, record), record)
    more = extension(old, built.group, target)
    if isinstance(more, Extension) and manifest.form in EXTENDED:
        kept = {name: value for name, value in manifest.documents.own().items() if name in ORIGIN and name != "options"}
        longer = replace(more, group=replace(more.group, origin={**kept, **more.group.origin}))
        if check:
            files.first_chunks.check(longer.group, files.urls)
        form_module(manifest.form).extend(longer, manifest.sources, target, output)
        return files.made(longer.counted(built), target, output)
    if manifest.form == "parquet" and not form.overwrite:
        raise UnrepresentableError(
            f"{more}, so that the cube has to be written anew, and who has it open reads other pixels then; "
            "--append --overwrite does that, and Icechunk keeps the older one",
            url=target,
        )
    whole = _group(target, replace(files.access, storage_options=own), files.first_chunks)
    for scene in scenes_of(whole, target):
        made.add(_ranked(scene))
    built = made.finish()
    if check:
        files.first_chunks.check(built.group, files.urls)
    write_elsewhere(built.group, target, output, None)
    return replace(files.made(built, target, output), rewritten=more if isinstance(more, str) else None)


def _as_before(form: WriteOptions, manifest: Manifest) -> WriteOptions:
    """Return the options for a manifest that is to go on as it is."""
    own = manifest.documents.own()
    return replace(
        form,
        format=manifest.form,
        overwrite=True,
        single_range=form.single_range or bool(own.get("single_range")),
        keep_query=(*form.keep_query, *own.get("keep_query", ())),
    )


@dataclass
class _Files:
    """The files of a cube, read as they are found."""

    found: Iterable[Source]
    teller: "_Teller"
    access: Access
    first_chunks: FirstChunks
    count: int = 0
    urls: set[str] = field(default_factory=set)
    """The sources of all files."""
    absent: list[str] = field(default_factory=list)

    def add_to(self, made: Cube) -> None:
        """Read all files, a few at a time, and add them to a cube."""
        with ThreadPoolExecutor(THREADS) as pool:
            for some in batched(self.found, AT_ONCE):
                for source, group in zip(some, pool.map(self._read, some), strict=True):
                    if group is None:
                        self.absent.append(_name(source))
                    elif isinstance(source, Found) and group.origin.get("cube"):
                        for scene in scenes_of(group, source.url):  # a cube that a collection names
                            made.add(scene)
                        self.urls |= {record.url for record in group.sources}
                        self.count += len(group.sources)
                    else:
                        for scene in self.teller.scenes(source, group):
                            made.add(scene)
                        self.urls |= {record.url for record in group.sources}
                        self.count += 1

    def _read(self, source: Source) -> VirtualGroup | None:
        """Return what a file or manifest holds, None where the file is not there."""
        if isinstance(source, VirtualGroup):
            return source
        try:
            if isinstance(source, Found):
                own = replace(self.access, named_by=source.named_by)
                if manifest_form(source.url) is not None:
                    return _group(source.url, own, self.first_chunks)
                group = scanning.scan(source.url, ScanOptions(overviews=False), own).group
                return with_bands(group, dict(source.told).get(BANDS, ()))
            return _group(os.fspath(source), self.access, self.first_chunks)
        except JnrrdzError as error:
            if is_absent(error):
                return None
            raise

    def made(self, built: Built, target: str, form: WriteOptions) -> CubeMade:
        """Return what was made of them."""
        groups = tuple(name for name, child in built.group.children.items() if isinstance(child, VirtualGroup))
        return CubeMade(
            *(target, form.format or format_of(target), self.count, built.times, built.bands, groups),
            *(built.chunks, built.missing, tuple(self.absent), built.twins, built.groups),
        )


def _ranked(scene: Scene) -> Scene:
    """Return a scene of a cube that is there, before which anything new comes."""
    return replace(scene, rank=(0,))


def _name(source: Source) -> str:
    if isinstance(source, VirtualGroup):
        return source.sources[0].url if source.sources else "a group"
    return source.url if isinstance(source, Found) else os.fspath(source)


def _group(name: str, access: Access, first_chunks: FirstChunks) -> VirtualGroup:
    if manifest_form(name) is None:
        return scanning.scan(name, ScanOptions(overviews=False), access).group
    manifest = api.open_stored(name, access=access).manifest
    group = group_from_manifest(manifest, allow=access.allow, source_options=access.source_options)
    first_chunks.add_manifest(manifest, group)
    return group


class _Teller:
    """Says which time and band each file is."""

    def __init__(self, options: CubeOptions, assets: Sequence[str] = ()) -> None:
        self.options = options
        self.assets = assets
        """The bands of products that are taken; all without any."""
        self.rule = None if options.time_from is None else rule_of(options.time_from, "--time-from")
        self.metadata = rule_of(METADATA, "--time-from")
        self.band: re.Pattern[str] | None = None
        if options.band_from is not None:
            try:
                self.band = re.compile(options.band_from)
            except re.error as error:
                raise MalformedError(f"not a regular expression: {error}", field="--band-from") from error
            if self.band.groups != 1:
                message = f"{self.band.groups} groups in {options.band_from!r}; one finds the band"
                raise MalformedError(message, field="--band-from")

    def scenes(self, source: Source, group: VirtualGroup) -> Iterator[Scene]:
        """Yield a file as a scene, a product as a scene of each image."""
        if PRODUCT not in group.attributes:
            yield self.scene(source, group)
            return
        name = _name(source)
        told: Mapping[str, Any] = dict(source.told) if isinstance(source, Found) else {}
        facts = group.attributes[PRODUCT]
        cover = facts.get("cloud_cover") if isinstance(facts, Mapping) else None
        if is_number(cover):
            told = {CLOUD_COVER: cover, **told}
        try:
            time = self._time(name, group, told)
        except UnrepresentableError as error:
            raise error.at(url=name) from error.__cause__
        rank = self._rank(group, told, time)
        count = 0
        for path, image in images_of(group):
            band = path.rpartition("/")[2]
            if self.assets and not {band, path} & set(self.assets):
                continue
            count += 1
            yield Scene(f"{name} {path}", time, image, (band,), rank)
        if not count:
            bands = ", ".join(dict.fromkeys(path.rpartition("/")[2] for path, _ in images_of(group)))
            raise UnrepresentableError(f"none of the bands {', '.join(self.assets)}; there are {bands}", url=name)

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
        if not isinstance(source, Found):
            return ()
        key, bands = dict(source.names).get("asset"), dict(source.told).get(BANDS, ())
        if key is None or key != IMAGE:
            return () if key is None else (key,)
        # such a key names no band, nor do the numbers of bands without a name
        names = tuple(band.name for band in bands)
        return names if all(name and not NUMBERED.fullmatch(name) for name in names) else ()

    def _rank(self, group: VirtualGroup, told: Mapping[str, Any], time: np.datetime64) -> tuple[Any, ...]:
        """Return what orders files that have the same pixels, all of them above what is in a cube already."""
        modified = group.sources[0].modified or "" if group.sources else ""
        values: dict[str, Callable[[], Any]] = {
            "datetime": lambda: str(told.get("datetime") or time),
            "updated": lambda: str(told.get("updated") or told.get("created") or modified),
            "created": lambda: str(told.get("created") or modified),
            "modified": lambda: modified,
            "cloud": lambda: -float(told.get(CLOUD_COVER, 100)),
        }
        return (1, *(values[name]() for name in self.options.by))
