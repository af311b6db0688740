"""HDF5 and netCDF-4 by VirtualiZarr's parser; before it, h5py is asked what no reference can say.

The parser takes a group at a time, so that a data set that cannot be said is left out of its own group alone.  Left
out are text of variable length, compound types, numbers of another layout than numpy's, filters without a codec that
is exact, chunks that were stored without their filters, virtual data sets and those in other files.  A link into
another file is refused, for whoever goes through the group would open that file.

Follows https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t4.html as far as h5py shows it.
"""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from jnrrdz.core.limits import DEEPEST, Budget, Resource
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import UnsupportedError
from jnrrdz.formats.foreign.groups import MAPPING, Conversion, converted
from jnrrdz.formats.foreign.hdf5_blocks import Blocks
from jnrrdz.formats.foreign.parsers import SOURCE, Reader, Store, parsing
from jnrrdz.formats.neighbours import Neighbours
from jnrrdz.options import ScanOptions
from jnrrdz.sources.readahead import ReadAhead

if TYPE_CHECKING:
    from virtualizarr.manifests import ManifestGroup

LIBRARIES = ("h5py", "virtualizarr.parsers")
"""What a worker process imports before it is given a file."""

FILTERS = {1: "deflate", 2: "shuffle", 3: "fletcher32", 32001: "blosc", 32015: "zstd"}
"""Filters of which a Zarr codec decodes the very bytes, by HDF5's registered numbers."""

NAMES = {4: "szip", 5: "nbit", 6: "scaleoffset", 307: "bzip2", 32000: "lzf", 32004: "lz4", 32008: "bitshuffle"}


@dataclass
class Folder:
    """A group, and what of it is not given to the parser."""

    path: str
    dropped: dict[str, str | None] = field(default_factory=dict)
    """By name; None for groups, which are taken on their own."""
    groups: list[str] = field(default_factory=list)
    dimensions: dict[str, list[str]] = field(default_factory=dict)
    """Names of the axes of each data set, as far as they have scales."""


@dataclass
class Survey:
    """What h5py sees in a file."""

    budget: Budget
    folders: list[Folder] = field(default_factory=list)
    inline: dict[str, bytes] = field(default_factory=dict)
    _seen: set[Any] = field(default_factory=set)

    def take(self, group: Any, path: str = "") -> None:
        """Look at a group and at all below it."""
        import h5py  # noqa: PLC0415  may not be installed

        self._seen.add(h5py.h5o.get_info(group.id).addr)
        folder = Folder(path)
        self.folders.append(folder)
        if path.count("/") >= DEEPEST:
            raise UnsupportedError(f"groups more than {DEEPEST} deep", field=path)
        for name in group:
            self.budget.charge(Resource.NODES, 1, field=path or "/")
            inner = f"{path}/{name}".lstrip("/")
            link = group.get(name, getlink=True)
            if isinstance(link, h5py.ExternalLink):
                raise UnsupportedError(f"a link into another file, {link.filename!r:.100}", field=inner)
            node = group.get(name)
            if isinstance(node, h5py.Dataset):
                reason = _of_type(node) or _of_storage(node, self, inner)
                if reason is not None:
                    folder.dropped[name] = reason
                else:
                    folder.dimensions[name] = _dimensions(node)
            elif isinstance(node, h5py.Group) and isinstance(link, h5py.HardLink):
                folder.dropped[name] = None
                if h5py.h5o.get_info(node.id).addr in self._seen:
                    folder.dropped[name] = "a second name of a group"
                else:
                    folder.groups.append(name)
                    self.take(node, inner)
            else:
                folder.dropped[name] = (
                    "a link to a group, or to nothing" if isinstance(link, h5py.SoftLink) else "a type"
                )


def _of_type(dataset: Any) -> str | None:
    """Return what is wrong with a data set's shape and type."""
    import h5py  # noqa: PLC0415  may not be installed

    if dataset.shape is None:
        return "no values at all (a null data space)"
    kind = dataset.id.get_type()
    if isinstance(kind, h5py.h5t.TypeStringID):
        is_mapping = dataset.shape == () and not kind.is_variable_str() and kind.get_size() == 1
        return None if is_mapping and not MAPPING.isdisjoint(dataset.attrs) else "text"
    dtype = dataset.dtype
    if dtype.kind not in "biufc" or dtype.shape:
        return f"HDF5's type {type(kind).__name__.removeprefix('Type').removesuffix('ID').lower()} ({dtype})"
    if dtype.kind in "iuf" and not isinstance(kind, h5py.h5t.TypeEnumID) and kind != h5py.h5t.py_create(dtype):
        return f"numbers of another layout than numpy's {dtype}"
    if dtype.itemsize != kind.get_size():
        return f"elements of {kind.get_size()} bytes for numpy's {dtype}"
    return None


def _of_storage(dataset: Any, survey: Survey, path: str) -> str | None:
    """Return what is wrong with where a data set's bytes are; those in its header are put down."""
    import h5py  # noqa: PLC0415  may not be installed

    plist = dataset.id.get_create_plist()
    if dataset.is_virtual:
        return "a virtual data set, which lies in others"
    if plist.get_external_count():
        return "bytes in another file"
    if plist.get_layout() == h5py.h5d.COMPACT and dataset.size:
        survey.inline[path] = np.asarray(dataset[()]).tobytes()
        return None
    if any(len(axis) > 1 for axis in dataset.dims):
        return "several dimension scales of one axis"
    budget = survey.budget
    return _of_grid(dataset, budget) or _of_filters(dataset, plist) or _of_room(dataset, budget)


def _grid_size(dataset: Any) -> int:
    """Return how many chunks a data set has, stored or not; one that is not chunked is one."""
    steps = dataset.chunks or tuple(max(size, 1) for size in dataset.shape)
    return math.prod(-(-size // step) for size, step in zip(dataset.shape, steps, strict=True))


def _of_grid(dataset: Any, budget: Budget) -> str | None:
    """Return why no bytes can be there for a grid, which the library may go through chunk by chunk."""
    absent = _grid_size(dataset) - budget.size
    if absent > budget.most(Resource.MISSING_CHUNKS):
        return f"at least {absent} {Resource.MISSING_CHUNKS.value}"
    return None


def _of_room(dataset: Any, budget: Budget) -> str | None:
    """Return why the parser would need more room than the file's bytes: it makes some for each chunk, or element."""
    count = _grid_size(dataset)
    if dataset.id.get_storage_size():
        count -= dataset.id.get_num_chunks() if dataset.chunks is not None else 1
    elif dataset.chunks is None and dataset.id.get_offset() is not None:
        return "no bytes, behind a user block"  # HDF5 gives a place all the same
    else:
        count = dataset.size
    try:
        budget.charge(Resource.MISSING_CHUNKS, count)
    except UnsupportedError as error:
        return error.message
    return None


def _of_filters(dataset: Any, plist: Any) -> str | None:
    numbers = [plist.get_filter(place)[0] for place in range(plist.get_nfilters())]
    unread = [NAMES.get(number, str(number)) for number in numbers if number not in FILTERS]
    if unread:
        return f"filter {', '.join(unread)}"
    if len(set(numbers)) != len(numbers):
        return "a filter twice"
    if numbers and dataset.id.chunk_iter(lambda chunk: True if chunk.filter_mask else None):
        return "chunks that were stored without their filters"
    return None


def _dimensions(dataset: Any) -> list[str]:
    """Return the names of dimension scales by which netCDF knows them, empty where an axis has none."""
    return [str(axis[0].name).rpartition("/")[2] if len(axis) == 1 else "" for axis in dataset.dims]


def scan_hdf5(read: ReadAhead, url: str, options: ScanOptions, neighbours: Neighbours) -> VirtualGroup:
    """Return the virtual group of an HDF5 or netCDF-4 file: its groups, and in each the data sets that can be said."""
    del options, neighbours
    budget = Budget(read.size, url)
    survey = Survey(budget)
    with parsing(read, "HDF5", "hdf") as reader:
        found = _parsed(reader, survey)
    conversion = Conversion({SOURCE: url}, survey.inline, read, budget=budget)
    for folder in survey.folders:
        for name, reason in folder.dropped.items():
            if reason is not None:
                conversion.leave_out(f"{folder.path}/{name}".lstrip("/"), reason)
    return converted(found, conversion)


def _parsed(reader: Reader, survey: Survey) -> "ManifestGroup":
    import h5py  # noqa: PLC0415  may not be installed
    from virtualizarr.manifests import ManifestArray, ManifestGroup  # noqa: PLC0415  the same
    from virtualizarr.parsers import HDFParser  # noqa: PLC0415  the same

    with h5py.File(reader, "r") as file:
        _, width = file.id.get_create_plist().get_sizes()
        reader.check = Blocks(reader.read_range, reader.size, width).check
        survey.take(file)
    folders = {folder.path: folder for folder in survey.folders}

    def parsed(folder: Folder) -> "ManifestGroup":
        parser = HDFParser(
            group=folder.path or None, drop_variables=list(folder.dropped), reader_factory=lambda *_: reader
        )
        # what parsers return is what `ManifestStore` holds; it has no other door than this
        own = parser(SOURCE, Store(reader))._group  # type: ignore[arg-type]  # noqa: SLF001
        arrays = {}
        for name, array in own.arrays.items():  # their axes by their scales' own names
            names = list(array.metadata.dimension_names or ())
            if scales := folder.dimensions.get(name):
                names = [scale or given for scale, given in zip(scales, names, strict=True)]
            document = {**array.metadata.to_dict(), "dimension_names": names}
            arrays[name] = ManifestArray(type(array.metadata).from_dict(document), array.manifest)
        below = {name: parsed(folders[f"{folder.path}/{name}".lstrip("/")]) for name in folder.groups}
        return ManifestGroup(arrays, below, dict(own.metadata.attributes))

    return parsed(folders[""])
