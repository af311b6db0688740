"""Options of scans, manifests and commands, and how sources are reached: records that the package passes on.

Public functions have the fields of these records as keywords, with the same names and defaults, and make the records;
docs/decisions/055-keywords.md.  A test compares both.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

type PrecinctWindows = Literal["auto", "always", "never"]
type Codecs = Literal["auto", "proposal", "standard"]
type StorageOptions = Mapping[str, Any] | None
type StorageOptionsOf = StorageOptions | Callable[[str], StorageOptions]
"""fsspec's options, or a function of a URL that gives them; it has to pickle."""


@dataclass(frozen=True)
class Access:
    """How what you name is reached, and what it may reach in turn."""

    allow: Sequence[str] = ()
    """Paths and URLs under which a manifest may name sources, and a source's header files, that are not where
    they may be anyway (below the folder that names them); `*` for all."""

    storage_options: StorageOptions = field(default=None, repr=False)
    """fsspec's options for the source or the manifest that you name."""

    source_options: StorageOptions = field(default=None, repr=False)
    """fsspec's options for the sources that a manifest names."""

    template_overrides: Mapping[str, str] | None = None
    """What stands for the templates of a manifest's URLs, by their names: `{"base": "s3://bucket/scenes/"}` for
    `{{base}}a.tif`.  Sources below it are ones that you name.  Without it a manifest's own values count, and
    osml-imagery-io's `base` is the manifest's folder."""

    named_by: str = ""
    """The document (a manifest, a STAC item) that names the source to scan; empty where you do.  What a document
    from afar names may be no nearer to this machine than it is."""

    def __post_init__(self) -> None:
        """Let manifests name what lies in the folders that templates are told to stand for."""
        folders = [value[: value.rfind("/") + 1] for value in (self.template_overrides or {}).values()]
        named = [it for it in folders if it.startswith("/") or it.count("/") > len("//")]
        if not set(named) <= set(self.allow):
            object.__setattr__(self, "allow", (*self.allow, *named))


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

    keep_query: Sequence[str] = ()
    """Members of a URL's query that name the file and are no secret, which the manifest then records; `*` for all.
    Without this only versions of objects stay (`versionId`, `generation`)."""

    target_options: StorageOptions = field(default=None, repr=False)
    """fsspec's options for the output."""


@dataclass(frozen=True)
class MergeOptions:
    """How many manifests, or sources, become one."""

    concat_dim: str = ""
    """The axis along which they are put together: a new one, or one that all of them have."""

    coord_from: str | None = None
    """Where each value along the axis stands: a regular expression whose one group finds it in the name, or
    `metadata` for the time at which the image was taken."""

    keep_order: bool = False
    """Keep the order in which they are named, and equal values too; else the values order them."""

    skip_mismatched: bool = False
    """Leave out what does not fit the others; else it is an error."""

    names: Sequence[str] = ()
    """The names of the references, where those are not their own."""

    check: bool = True
    """Decode one chunk of each array before the manifest is written."""


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
    """Which of two files that have the same pixels is taken: the first of `datetime`, `updated`, `created`, `cloud`
    and `modified` in which they differ.  A later time comes before an earlier one, less cloud before more."""

    group_by_grid: bool = False
    """Put files of other grids into groups of their own."""

    append: bool = False
    """Add the files to the cube that the output is."""

    stac_out: str | None = None
    """A file for a STAC collection of which the cube is an asset."""

    collection: str = ""
    """Its name; by default the one of the cube."""

    check: bool = True
    """Decode one chunk of each array, of the files that are added, before the manifest is written."""


@dataclass(frozen=True)
class ItemRules:
    """What is told of STAC items beyond what their images say."""

    datetime: str | None = None
    """When the images were taken: a time, or two with a slash between them."""

    time_from: str | None = None
    """Where that stands: a regular expression whose one group finds it in the source's name, `metadata`, or
    `modified` for the time at which the file was changed; by default what a STAC item says, else the metadata."""

    band_from: str | None = None
    """A regular expression whose one group finds, in the source's name, the band of an image of one band."""

    collection: str = ""
    """The collection that the items belong to; by default the name of the folder or file that they are written to."""


@dataclass(frozen=True)
class BatchOptions:
    """How the work of a batch is done."""

    jobs: int = 64
    """Sources under way at once."""

    processes: int | None = None
    """Processes that share the work: by default one a core, and one for few sources."""

    scheduler: str | None = None
    """The URL of a dask.distributed scheduler to work on, or `local`."""

    retries: int = 3
    """How often a source is tried again after a failure that may pass."""

    timeout: float | None = None
    """Seconds for each source."""

    max_errors: int | None = None
    """Stop when so many sources have failed."""

    fail_fast: bool = False
    """Stop at the first failure."""

    resume: bool = False
    """Leave outputs of the same source, as it is now, with the same options."""

    dry_run: bool = False
    """Write nothing; the outcomes tell what would be written."""

    report: str | os.PathLike[str] | None = None
    """A local file that gets a line of JSON for each source."""

    stac_out: str | os.PathLike[str] | None = None
    """A folder for STAC items and their collection, or a file that ends in `.ndjson` for items on a line each."""

    allow: Sequence[str] = ()
    """As in `Access`."""

    storage_options: StorageOptionsOf = field(default=None, repr=False)
    """fsspec's options for the sources."""

    target_options: StorageOptionsOf = field(default=None, repr=False)
    """fsspec's options for the outputs."""

    def source_options(self, url: str) -> StorageOptions:
        """Return fsspec's options for a source."""
        return self.storage_options(url) if callable(self.storage_options) else self.storage_options

    def output_options(self, url: str) -> StorageOptions:
        """Return fsspec's options for an output."""
        return self.target_options(url) if callable(self.target_options) else self.target_options


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

    codecs: Codecs = "auto"
    """Which codecs say how chunks are read: Zarr's own wherever they are exact (`auto`), Zarr's own or an error
    that says what they cannot (`standard`), or those of the format's proposal, one family for a whole archive
    (`proposal`)."""

    chain: str | None = None
    """Codecs that take the headers of N5 blocks: pad, offset, n5_default; by default what reads them right."""

    stack_timepoints: bool = False
    """Put the timepoints of a BigDataViewer container into an axis `t`."""

    precinct_windows: PrecinctWindows | None = None
    """Cut JPEG 2000 tiles into windows of precincts: large tiles whose packets are cheap to find (`auto`, the
    default), all, or none."""

    tile_part_table: str | None = None
    """A Parquet table of others, on this machine, that lists the tile-parts of JPEG 2000 files: it replaces the walk
    through a file without TLM."""

    allow_missing: bool = False
    """Take tiles whose files are not there for missing chunks, which read as the fill value; leave out images of a
    product that do not exist."""

    allow_odd_blocks: bool = False
    """Take N5 blocks of another shape than `blockSize` says: larger ones are cut off, shorter ones filled up."""

    object_versions: bool = True
    """Record of each of a container's objects what its listing says of its state, so that one that is replaced
    is noticed: some bytes for each chunk."""

    def changed(self) -> dict[str, Any]:
        """Return the choices that differ from the defaults, as a manifest records them."""
        return {name: value for name, value in vars(self).items() if value != getattr(ScanOptions, name)}

    def whole_tiles(self) -> "ScanOptions":
        """Return the options for one range a chunk: JPEG 2000 tiles stay whole unless you ask for windows."""
        return replace(self, precinct_windows=self.precinct_windows or "never")


type Packing = Literal["zstd", "gzip", "bytes"]

LOCAL = ("127.0.0.1", "localhost", "::1")
"""The names of this machine that a server on it has without being told."""

CACHE_BYTES = 256 << 20
"""Bytes that a server keeps in memory."""


@dataclass(frozen=True)
class ServeOptions:
    """What is served, and to whom."""

    packing: Packing = "zstd"
    """The codec of chunks: `zstd`, `gzip`, or `bytes` for none."""

    token: str | None = field(default=None, repr=False)
    """The first part of each path; without one only this machine is served."""

    hosts: Sequence[str] = LOCAL
    """Names that the Host header may have; * for all, where something in front of the server looks at them."""

    origins: Sequence[str] = ()
    """Origins whose pages may read, such as https://avivator.gehlenborglab.org; * for all."""

    pyramids: bool = True
    """Whether a picture without coarser levels gets some, computed where they are read."""

    max_age: int = 0
    """Seconds for which an answer may be taken for fresh; 0 has readers ask each time whether it still is."""

    cache_bytes: int = CACHE_BYTES
    """Bytes that a server keeps in memory: answers, and decoded source chunks that several answers are cut from."""

    access: Access = field(default_factory=Access)
    """How sources and manifests are reached."""
