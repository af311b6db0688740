"""Which codecs arrays may have that our store serves: those of a list, each bounded by the chunk's size, ours of ours.

Metadata name codecs, and zarr takes whatever class is registered by a name: another package's `n5_default`, or a
decompressor that holds all that a chunk inflates to, so that a few kilobytes fill all memory.  What the store serves
names `jnrrdz.checked` in place of such a codec, with the codec's own entry inside of it: the class that comes of it is
ours, and spells itself as the entry that the manifest has.  The rules: docs/decisions/019-codecs-of-a-list.md.
"""

import math
from collections.abc import Mapping
from typing import Any, TypeGuard

from zarr.abc.codec import Codec
from zarr.core.common import JSON
from zarr.core.dtype import get_data_type_from_json
from zarr.registry import _codec_registries, get_codec_class, register_codec

from jnrrdz import codecs
from jnrrdz.core.codec_table import SHARDING, find, names_at
from jnrrdz.core.codecs import BYTES, CRC32C
from jnrrdz.core.configuration import Codec as Entry
from jnrrdz.core.configuration import CodecRecord, CodecSpec, Stage
from jnrrdz.core.json_schema import is_integer, shown
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.records import resolved

MOST_IN_A_SHARD = 1 << 20
"""Chunks of a shard: zarr makes room for each of them, whether it is there or not."""


def rule() -> str:
    """Return which codecs a manifest's arrays may have."""
    named = {stage: ", ".join(names_at(stage)) for stage in Stage}
    return (
        f"a manifest's arrays have, in this order, any of {named[Stage.ARRAY]}; one codec from elements to bytes; "
        f"behind bytes at most one of {named[Stage.PACKER]}; and any of {named[Stage.BYTES]}"
    )


def own_codec(spec: Entry) -> Codec:
    """Return our codec of an entry, zarr's where the name is none of ours."""
    record = find(spec.name)
    codec_class: Any
    if record is None or record.codec_class is None:
        codec_class = get_codec_class(spec.name)
    else:
        codec_class = resolved(record.codec_class)
    codec: Codec = codec_class.from_dict(spec.to_json())
    return codec


class CheckedCodec:
    """What `jnrrdz.checked` stands for: the entry inside of it, read by our own class."""

    NAME = "jnrrdz.checked"

    @classmethod
    def from_dict(cls, data: dict[str, JSON]) -> Codec:
        """Return the codec, which spells itself as the entry inside."""
        configuration: Any = data["configuration"]
        spec, beside = CodecSpec.from_json(configuration["codec"]), configuration.get("beside", 0)
        record = find(spec.name)
        if record is None or record.bounded_class is None:
            return own_codec(spec)
        config = spec if record.config is None else record.config.from_json(spec.configuration)
        bounded: Codec = resolved(record.bounded_class)(config, beside)
        return bounded


register_codec(CheckedCodec.NAME, CheckedCodec)  # type: ignore[arg-type]  # zarr only asks it for `from_dict`


def checked_codecs(entries: Any, shape: Any = None) -> list[Any]:
    """Return the codecs of an array as zarr is to take them: the same, but where zarr would not take ours.

    `shape` is a chunk's, without which no shards are taken.
    """
    if not isinstance(entries, list):
        raise MalformedError(f"found {shown(entries)}; a list of codecs is needed", field="codecs")
    served, beside = [], 0
    pixels = packer = None
    for entry in entries:
        spec = CodecSpec.from_json(entry)
        record = find(spec.name)
        stage = None if record is None else record.stage
        told: dict[str, Any] = {"codec": spec.to_json()}
        if pixels is None and stage is Stage.PIXELS:
            pixels = spec.name
        elif pixels == BYTES and packer is None and stage is Stage.PACKER:
            packer = spec.name
            told["beside"] = beside
        elif pixels is not None and stage is Stage.BYTES:
            if record is not None and record.added_bytes is not None:
                beside += record.added_bytes(spec.configuration)
        elif pixels is not None or stage is not Stage.ARRAY:
            raise _refusal(spec.name, entries)
        if spec.name == SHARDING:
            entry = _checked_shard(spec, shape)  # noqa: PLW2901  as zarr is to take it
        is_wrapped = record is not None and _is_wrapped(record)
        served.append({"name": CheckedCodec.NAME, "configuration": told} if is_wrapped else entry)
    if pixels is None:
        raise MalformedError("no codec makes bytes of the elements", field="codecs")
    return served


def _refusal(name: str, entries: list[Any]) -> UnsupportedError:
    """Return the error for a codec that is unknown, or not at its stage."""
    chain = ", ".join(CodecSpec.from_json(one).name for one in entries)
    message = f"{name!r} in [{chain}]; {rule()}"
    if find(name) is None:
        message = (
            f"{name!r:.200} in [{chain:.400}], a codec that jnrrdz does not have; "
            "index the file itself if jnrrdz reads its format"
        )
    return UnsupportedError(message[:1000], field="codecs")


def _is_wrapped(record: CodecRecord) -> bool:
    """Whether zarr is given our class for a codec by `jnrrdz.checked`."""
    if record.bounded_class is not None:
        return True
    return record.codec_class is not None and not _is_alone(record.name)


def checked_document(document: dict[str, Any]) -> dict[str, Any]:
    """Return an array's document as zarr is to take it, any other node's as it is."""
    if document.get("node_type") != "array":
        return document
    grid = document.get("chunk_grid")
    configuration = grid.get("configuration") if isinstance(grid, Mapping) else None
    shape = configuration.get("chunk_shape") if isinstance(configuration, Mapping) else None
    codecs = checked_codecs(document.get("codecs"), shape)
    return document if codecs == document["codecs"] else {**document, "codecs": codecs}


def _checked_shard(spec: CodecSpec, shape: Any) -> dict[str, Any]:
    """Return the entry of a shard's codec with the codecs of its chunks checked as an array's are."""
    inner, index = spec.configuration.get("chunk_shape"), spec.configuration.get("index_codecs")
    if not _are_sizes(shape) or not _are_sizes(inner) or len(shape) != len(inner):
        raise MalformedError(f"{shown(inner)} are no sides of chunks in a shard of {shown(shape)}", field=SHARDING)
    count = math.prod(whole // part for whole, part in zip(shape, inner, strict=True))
    if count > MOST_IN_A_SHARD:
        raise UnsupportedError(f"{count} chunks in a shard; {MOST_IN_A_SHARD} are read", field=SHARDING)
    chain = [CodecSpec.from_json(entry).name for entry in index] if isinstance(index, list) else []
    if chain not in ([BYTES], [BYTES, CRC32C]):
        raise UnsupportedError(f"an index of shards by {', '.join(chain)}; bytes and crc32c are read", field=SHARDING)
    codecs = checked_codecs(spec.configuration.get("codecs"))
    return {"name": SHARDING, "configuration": {**spec.configuration, "codecs": codecs}}


def _are_sizes(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(is_integer(size, 1, 1 << 62) for size in value)


MOST_SPARE = 1 << 26
"""Bytes that any chunk may be stored in, however small it is."""

MOST_EXPANDED = 16
"""How many times its own size a chunk may be stored in: blocks of N5 reach that far beyond their place."""

LARGEST_SPARE, LARGEST_EXPANDED = 1 << 30, 1 << 10
"""The same for codecs whose chunk is a level, some components or a part of what is stored."""


def most_stored(document: Mapping[str, Any]) -> tuple[int, int]:
    """Return the bytes of a chunk of an array, and the most that it may be stored in."""
    try:
        chunk = document["chunk_grid"]["configuration"]["chunk_shape"]
        itemsize = get_data_type_from_json(document["data_type"], zarr_format=3).to_native_dtype().itemsize
        names = [CodecSpec.from_json(entry).name for entry in document["codecs"]]
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedError(f"not an array's metadata: {error!r}", field="data_type") from error
    size = math.prod(chunk) * itemsize
    records = map(find, names)
    if any(record is not None and record.is_part_of_stored for record in records):
        return size, LARGEST_SPARE + LARGEST_EXPANDED * size
    return size, MOST_SPARE + MOST_EXPANDED * size


def _is_alone(name: str) -> bool:
    """Whether zarr knows our class by a name, and no other."""
    registered = _codec_registries[name]
    known = {*registered, *(point.value.replace(":", ".") for point in registered.lazy_load_list)}
    return len(known) == 1 and known.pop().startswith(f"{codecs.__name__}.")
