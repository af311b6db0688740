"""What a parser of VirtualiZarr found, as a virtual group: columns become columns, metadata go through our checks.

An array that cannot be said exactly is left out, with a warning that names it and says why; a source of which nothing
is left is refused.  A codec is said as core Zarr says it where both are the same bytes.  A large array that is stored
in one piece is cut into slabs (`core.slabs`), so that a reader need not fetch all of it for a pixel.
"""

import base64
import math
import struct
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from jnrrdz.core import codecs as codec
from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.configuration import Codec, CodecSpec
from jnrrdz.core.json_schema import validate
from jnrrdz.core.limits import CHUNK_BYTES, Budget, Resource
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.slabs import cut
from jnrrdz.core.tree import Node, VirtualGroup
from jnrrdz.core.zarr_json import NODE, array_from_json, json_value
from jnrrdz.errors import JnrrdzError, MalformedError, UnrepresentableError, UnsupportedError
from jnrrdz.sources.ranges import ReadRange

if TYPE_CHECKING:
    from virtualizarr.manifests import ChunkManifest, ManifestArray, ManifestGroup

MAPPING = {"grid_mapping_name", "crs_wkt", "spatial_ref"}
"""Attributes of a variable that says where others lie; its own value means nothing (CF 5.6)."""

TEXT = {"null_terminated_bytes", "fixed_length_utf32", "string", "variable_length_utf8"}
READ = {codec.BYTES, codec.TRANSPOSE, *codec.COMPRESSORS, *codec.FILTERS, "crc32c"}
"""Codecs that decode to the same numbers here as where they were written."""

COORDINATE = 1 << 16
"""Bytes of a coordinate that a manifest holds itself."""

PIECE = 16 * 1024 * 1024
"""Bytes of a piece of an array that is stored in one."""


@dataclass
class Conversion:
    """One source's arrays on their way."""

    urls: Mapping[str, str]
    """What references name, by what the parser calls it."""

    inline: Mapping[str, bytes] = field(default_factory=dict)
    """Bytes of arrays that stand where no reference can point, by path."""

    read: ReadRange | None = None
    """Reads the source, for coordinates, which manifests hold themselves: so those of two files compare."""

    left_out: list[str] = field(default_factory=list)
    kept: int = 0
    budget: Budget | None = None
    """What the source may take; None where nothing is cut into slabs."""

    _numbers: dict[tuple[int, int], int] = field(default_factory=dict)

    def leave_out(self, path: str, reason: object) -> None:
        """Note an array, group or attribute that is not taken."""
        self.left_out.append(f"{path}: {reason}")

    def group(self, found: "ManifestGroup", prefix: str = "") -> VirtualGroup:
        """Return a group with all that is below it."""
        children: dict[str, Node] = {}
        for name, array in found.arrays.items():
            path = f"{prefix}{name}"
            try:
                children[name] = self.array(array, path)
                self.kept += 1
            except (UnsupportedError, UnrepresentableError) as error:
                self.leave_out(path, error.message if error.field in {None, path} else f"{error.field}: {error}")
        for name, child in found.groups.items():
            children[name] = self.group(child, f"{prefix}{name}/")
        return VirtualGroup(named_apart(children, self._numbers), self.attributes(found.metadata.attributes, prefix))

    def array(self, found: "ManifestArray", path: str) -> VirtualArray:
        """Return an array."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # zarr warns of the types that are left out here
            document: dict[str, Any] = dict(found.metadata.to_dict())
        attributes = dict(document.get("attributes") or {})
        kind = document["data_type"]
        named = kind.get("name") if isinstance(kind, Mapping) else kind
        if named in TEXT and document["shape"] in ([], ()) and not MAPPING.isdisjoint(attributes):
            document |= {"data_type": "uint8", "fill_value": 0, "codecs": [{"name": codec.BYTES}]}
        elif named in TEXT:
            raise UnrepresentableError("text, which Zarr v3 has no core data type for")
        elif isinstance(kind, Mapping):
            raise UnrepresentableError(f"a data type {named!r}, which Zarr v3 has no core type for")
        checked = validate(json_value(document | {"attributes": {}}), NODE, path)
        facts = array_from_json(checked, name=path.rpartition("/")[2])
        codecs = tuple(plain_spelling(spec, facts.dtype.itemsize) for spec in facts.codecs)
        unread = sorted({spec.name for spec in codecs} - READ)
        if unread:
            raise UnsupportedError(f"codec {', '.join(unread)}")
        fill = {name: decoded_fill(attributes.pop(name), facts.dtype) for name in ("_FillValue",) if name in attributes}
        array = VirtualArray(
            shape=facts.shape,
            dtype=facts.dtype,
            chunks=facts.chunks,
            codecs=codecs,
            refs=self._refs(found.manifest, facts.refs.chunks, path),
            dimension_names=facts.dimension_names,
            fill_value=facts.fill_value,
            attributes=self.attributes(attributes, path) | fill,
        )
        is_coordinate = array.dimension_names == (path.rpartition("/")[2],)
        return self._held(array) if is_coordinate else in_pieces(array, self.budget)

    def _held(self, array: VirtualArray) -> VirtualArray:
        """Return a short coordinate with its bytes."""
        refs = array.refs.columns()
        stored = int(refs.length.sum())
        if self.read is None or not 0 < stored <= COORDINATE or refs.chunks > COORDINATE // 8 or not refs.is_single:
            return array
        spans = zip(refs.owner.tolist(), refs.offset.tolist(), refs.length.tolist(), strict=True)
        held = {chunk: self.read(start, start + length) for chunk, start, length in spans}
        return replace(array, refs=replace(ChunkRefs.empty(refs.chunks), inline={**refs.inline, **held}))

    def attributes(self, found: Mapping[str, Any], path: str) -> dict[str, Any]:
        """Return attributes as JSON has them; one that it cannot say is left out."""
        said = {}
        for name, value in found.items():
            try:
                said[name] = json_value(value)
            except UnrepresentableError as error:
                self.leave_out(f"{path.rstrip('/') or '/'} {name}", error.message)
        return said

    def _refs(self, manifest: "ChunkManifest", chunks: int, path: str) -> ChunkRefs:
        """Return the references of a manifest's columns."""
        if path in self.inline:
            return replace(ChunkRefs.empty(1), inline={0: self.inline[path]})
        # columns as its own writers take them
        paths, offsets, lengths, held = manifest._paths, manifest._offsets, manifest._lengths, manifest._inlined  # noqa: SLF001
        present = (paths != "").ravel()
        if not present.any():
            return ChunkRefs.empty(chunks)
        if paths.size != chunks:
            raise MalformedError(f"{paths.size} references for {chunks} chunks", field=path)
        grid = paths.shape
        inline = {int(np.ravel_multi_index(at, grid)) if grid else 0: bytes(data) for at, data in held.items()}
        present[list(inline)] = False
        names, source = _numbered(paths.ravel()[present])
        if not set(names) <= set(self.urls):
            raise UnsupportedError("a reference into another file")
        return replace(
            ChunkRefs.from_rows(
                tuple(self.urls[name] for name in names),
                present.astype(np.int64),
                offsets.ravel()[present].astype(np.int64),
                lengths.ravel()[present].astype(np.int64),
                source,
            ),
            inline=inline,
        )

    def finish(self, root: VirtualGroup) -> VirtualGroup:
        """Return the tree; nothing left is an error, what is left out a warning."""
        if not self.kept:
            reasons = "; ".join(self.left_out[:SHOWN]) or "it holds no array"
            raise UnsupportedError(f"nothing in it can be referred to: {reasons}")
        if self.left_out:
            more = f"; and {len(self.left_out) - SHOWN} more" if len(self.left_out) > SHOWN else ""
            warnings.warn(f"left out: {'; '.join(self.left_out[:SHOWN])}{more}", stacklevel=2)
        return root


SHOWN = 8
"""Arrays left out that a message names."""


def _numbered(paths: Any) -> tuple[Sequence[str], Any]:
    """Return the different texts of a column, and for each place the number of its own."""
    if len(paths) and (paths == paths[0]).all():
        return [str(paths[0])], np.zeros(len(paths), np.int32)
    names, number = np.unique(paths, return_inverse=True)
    return [str(name) for name in names], number.astype(np.int32)


def decoded_fill(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return `_FillValue` as a number, which parsers spell for xarray: base64 of a little-endian double for floats."""
    if isinstance(value, list):
        (value,) = value if len(value) == 1 else (None,)
    try:
        if isinstance(value, str) and dtype.kind == "f":
            (value,) = struct.unpack("<d", base64.b64decode(value, validate=True))
        return dtype.type(value).item()
    except (TypeError, ValueError, OverflowError, struct.error):
        raise UnrepresentableError(f"{value!r} is no {dtype.name}", field="_FillValue") from None


_CORE = {"numcodecs.zstd": codec.ZSTD, "numcodecs.gzip": codec.GZIP, "numcodecs.blosc": codec.BLOSC}


def plain_spelling(spec: Codec, itemsize: int) -> Codec:
    """Return a codec as core Zarr says it, where that is the same bytes."""
    members = dict(spec.configuration)
    name = _CORE.get(spec.name, spec.name)
    if spec.name == codec.BYTES:
        return CodecSpec(name, members if itemsize > 1 else {})
    if spec.name == "numcodecs.zstd":
        return CodecSpec(name, {"level": members.get("level", 0), "checksum": bool(members.get("checksum"))})
    if spec.name == "numcodecs.gzip":
        return CodecSpec(name, {"level": members.get("level", 1)})
    if spec.name == "numcodecs.blosc":
        shuffle = members.get("shuffle", 1)
        return CodecSpec(
            name,
            {
                "cname": members.get("cname", "lz4"),
                "clevel": members.get("clevel", 5),
                "shuffle": codec.SHUFFLES[shuffle] if shuffle in range(3) else codec.SHUFFLES[1],
                "typesize": members.get("typesize") or itemsize,
                "blocksize": members.get("blocksize", 0),
            },
        )
    return spec


def in_pieces(array: VirtualArray, budget: Budget | None) -> VirtualArray:
    """Return an array that is stored in one plain piece with chunks of about `PIECE` bytes."""
    size = math.prod(array.shape) * array.dtype.itemsize
    is_plain = [spec.name for spec in array.codecs] == [codec.BYTES]
    if not is_plain or size <= PIECE or array.chunks != array.shape:
        return array
    stored = array.refs.columns()
    if stored.length.tolist() != [size]:
        return array
    itemsize = array.dtype.itemsize
    if budget is not None:  # slabs are larger than `PIECE` where there would be many: these are counted below
        budget.charge(Resource.CHUNKS, size // CHUNK_BYTES)
    slabs = cut(array.shape, itemsize, PIECE)
    if budget is not None:
        budget.charge(Resource.CHUNKS, slabs.count)
    starts, lengths = slabs.places()
    offsets = stored.offset[0] + starts * itemsize
    refs = ChunkRefs.single(stored.sources[0], offsets, lengths * itemsize)
    codecs = slabs.codecs(array.codecs[0].configuration.get("endian")) if slabs.short else array.codecs
    return replace(array, chunks=slabs.chunks, codecs=codecs, refs=refs)


PHONY = "phony_dim_"


def named_apart(children: Mapping[str, Node], numbers: dict[tuple[int, int], int]) -> dict[str, Node]:
    """Return arrays whose dimensions without a name are one dimension only where they have one size.

    A parser numbers the axes of each array, so that those of two arrays share names.  `numbers` are those of the
    whole tree: xarray hands dimensions down.
    """
    arrays = {name: child for name, child in children.items() if isinstance(child, VirtualArray)}
    if not any(axis.startswith(PHONY) for array in arrays.values() for axis in array.dimension_names):
        return dict(children)
    renamed: dict[str, Node] = {}
    for name, child in children.items():
        if isinstance(child, VirtualGroup):
            renamed[name] = child
            continue
        names: list[str] = []
        for axis, size in zip(child.dimension_names, child.shape, strict=True):
            twins = sum(other == size for other in child.shape[: len(names)])
            number = numbers.setdefault((size, twins), len(numbers)) if axis.startswith(PHONY) else 0
            names.append(f"{PHONY}{number}" if axis.startswith(PHONY) else axis)
        renamed[name] = replace(child, dimension_names=tuple(names))
    return renamed


def converted(found: "ManifestGroup", conversion: Conversion) -> VirtualGroup:
    """Return the tree of a parser's group."""
    try:
        return conversion.finish(conversion.group(found))
    except JnrrdzError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise MalformedError(f"a parser's array has no usable metadata: {error!r}"[:300]) from error
