"""The table of codecs: every record, gathered from the rooms of the formats, and what chains become by them.

A room's `codecs` module has the names, configurations and records of its format's codecs.
It imports `core` alone, so that the table, which rooms below and above it use, can import
it: the rooms are named here once, and imported when a codec of theirs is looked up.
docs/decisions/054-one-record-for-each-codec.md

`merge` and `cube` put an axis in front of arrays, of which each chunk holds one place.  The
bytes of a chunk stay as they are, so the codecs have to read them for a chunk that has one
more axis of length 1.  Each record says how.  In front of a codec that takes no more axes
goes `reshape`, which leaves the axis out.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from jnrrdz.core.codec_records import OF_OSML, PACKERS, STEPS, ZARRS_OWN
from jnrrdz.core.codecs import BYTES, ReshapeConfig
from jnrrdz.core.configuration import (
    ANY_AXES,
    NO_AXES,
    Change,
    Codec,
    CodecRecord,
    CodecSpec,
    Leading,
    Readers,
    Stage,
)
from jnrrdz.errors import MalformedError, UnrepresentableError
from jnrrdz.records import resolved

SHARDING = "sharding_indexed"

ROOMS = [
    "jnrrdz.formats.tiff.codecs",
    "jnrrdz.formats.jpeg2000.codecs",
    "jnrrdz.formats.nitf.codecs",
    "jnrrdz.formats.n5.codecs",
]
"""The modules with records of formats, in the order in which they are searched."""


def _shards_lifted(codec: Codec, _: int) -> Codec:
    inner = codec.configuration["chunk_shape"]
    codecs = lifted(_specs(codec.configuration["codecs"]), len(inner))
    return _shards(codec, [1, *inner], codecs)


def _shards_lowered(codec: Codec, _: int) -> Codec | None:
    first, *inner = codec.configuration["chunk_shape"]
    if first != 1:
        return None
    codecs = lowered(_specs(codec.configuration["codecs"]), len(inner))
    return _shards(codec, inner, codecs)


def _shards(codec: Codec, inner: Sequence[int], codecs: Iterable[Codec]) -> Codec:
    members = {"chunk_shape": list(inner), "codecs": [one.to_json() for one in codecs]}
    return CodecSpec(SHARDING, {**codec.configuration, **members})


def _specs(entries: Iterable[Any]) -> tuple[CodecSpec, ...]:
    return tuple(map(CodecSpec.from_json, entries))


SHARDS = CodecRecord(
    SHARDING,
    Stage.PIXELS,
    Leading(_shards_lifted, _shards_lowered),
    Readers.ANY,
    can_encode=True,
)
"""Here, since its chunks have codecs of the table."""

GENERAL = (*ZARRS_OWN, SHARDS, *STEPS, *PACKERS, *OF_OSML)


# Looking up


@cache
def _of_room(room: str) -> Mapping[str, CodecRecord]:
    return {record.name: record for record in import_module(room).RECORDS}


_GENERAL: Mapping[str, CodecRecord] = {record.name: record for record in GENERAL}


def find(name: str) -> CodecRecord | None:
    """Return the record of a codec, None for a codec that jnrrdz does not know."""
    if name in _GENERAL:
        return _GENERAL[name]
    for room in ROOMS:
        records = _of_room(room)
        if name in records:
            return records[name]
    return None


def record_of(name: str) -> CodecRecord:
    """Return the record of a codec that is in the table."""
    record = find(name)
    if record is None:
        raise LookupError(name)
    return record


def all_records() -> Mapping[str, CodecRecord]:
    """Return the records of all codecs that arrays of manifests may have, by name."""
    gathered = dict(_GENERAL)
    for room in ROOMS:
        gathered |= _of_room(room)
    return gathered


def own_records() -> Mapping[str, CodecRecord]:
    """Return the records of the codecs that jnrrdz brings, by name."""
    return {name: record for name, record in all_records().items() if record.codec_class}


def record_of_class(place: str) -> CodecRecord | None:
    """Return the record whose class is at `module:name`."""
    for record in all_records().values():
        if record.codec_class == place:
            return record
    return None


def is_at(stage: Stage, name: str) -> bool:
    """Whether a codec is known and at a stage of a chain."""
    record = find(name)
    return record is not None and record.stage is stage


def names_at(stage: Stage) -> list[str]:
    """Return the names of the codecs at a stage of a chain."""
    return [name for name, record in all_records().items() if record.stage is stage]


def renamed(entry: Any) -> Any:
    """Return an entry of a manifest under the codec's present name: 0.1.0 called `jbp-jpeg` `jpeg`."""
    name, configuration = entry, {}
    if isinstance(entry, Mapping):
        name, configuration = entry.get("name"), entry.get("configuration", {})
    if not isinstance(name, str) or find(name) is not None:
        return entry
    for record in all_records().values():
        if record.former_name == name and record.config is not None:
            try:
                return record.config.from_json(configuration).to_json()
            except MalformedError:  # another project's codec of that name
                return entry
    return entry


FOREIGN = "imagecodecs_"
"""What names of codecs of imagecodecs begin with."""


def foreign_codec(entries: Any) -> str | None:
    """Return the first codec of imagecodecs that an array's codecs or filters name."""
    for entry in entries if isinstance(entries, list) else ():
        name = entry
        if isinstance(entry, dict):
            name = entry.get("name", entry.get("id"))
        if isinstance(name, str) and name.startswith(FOREIGN):
            return name
    return None


def codecs_of_foreign(specs: Sequence[CodecSpec], tiles: Any) -> Sequence[Codec] | None:
    """Return codecs that read a chain of another project's codecs, None for a chain that no format knows."""
    for record in all_records().values():
        if record.foreign is not None:
            codecs: Sequence[Codec] | None = resolved(record.foreign)(specs, tiles)
            if codecs is not None:
                return codecs
    return None


def entries_of_foreign(document: Mapping[str, Any]) -> list[Any]:
    """Return the codecs of an array's zarr.json with those of another project replaced."""
    entries: list[Any] = document["codecs"]
    for record in all_records().values():
        if record.foreign_document is not None:
            entries = resolved(record.foreign_document)({**document, "codecs": entries})
    return entries


# Chains


def lifted(codecs: Sequence[Codec], axes: int) -> tuple[Codec, ...]:
    """Return codecs that read the same bytes for chunks of so many axes and one more in front, of length 1."""
    leading = [_record(codec).leading for codec in codecs]
    if all(each is ANY_AXES for each in leading):
        return tuple(codecs)
    raised: list[Codec] = []
    for number, codec in enumerate(codecs):
        changed = _changed(leading[number].lifted, codec, axes)
        # what packs the bytes that `bytes` makes is given the shape of the same chunk
        packs_own_shape = codec.name == BYTES and any(each is NO_AXES for each in leading[number:])
        if changed is None or packs_own_shape:
            return (*raised, ReshapeConfig.dropping(1, axes), *codecs[number:])
        raised.append(changed)
        if leading[number].takes_it_off:
            return (*raised, *codecs[number + 1 :])
    return tuple(raised)


def lowered(codecs: Sequence[Codec], axes: int) -> tuple[Codec, ...]:
    """Return codecs for chunks of so many axes, which have no axis in front any more: the inverse of `lifted`."""
    chain: list[Codec] = []
    for number, codec in enumerate(codecs):
        leading = _record(codec).leading
        changed = _changed(leading.lowered, codec, axes)
        if leading.takes_it_off:
            changed_codecs = () if changed is None else (changed,)
            return (*chain, *changed_codecs, *codecs[number + 1 :])
        if changed is None:
            raise UnrepresentableError(f"{codec.name} does not let the first axis be left out", field="codecs")
        chain.append(changed)
    return tuple(chain)


def decoding(codecs: Sequence[Codec]) -> list[Any]:
    """Return what decides how chunks are decoded, as JSON: without the image's size, and what matters to writers."""
    entries = []
    for codec in codecs:
        record = find(codec.name)
        left_out = frozenset[str]()
        if record is not None:
            left_out = record.of_writers | record.sides.keys()
        members = {name: value for name, value in codec.configuration.items() if name not in left_out}
        entries.append(CodecSpec(codec.name, members).to_json())
    return entries


def with_sides(codecs: Sequence[Codec], shape: Sequence[int]) -> tuple[Codec, ...]:
    """Return codecs for an image of another shape with chunks of the same."""
    chain: list[Codec] = []
    for codec in codecs:
        record = find(codec.name)
        sides: dict[str, int] = {}
        if record is not None:
            sides = {name: int(shape[axis]) for name, axis in record.sides.items()}
        configuration = codec.configuration
        if any(configuration[name] != size for name, size in sides.items()):
            chain.append(CodecSpec(codec.name, {**configuration, **sides}))
        else:
            chain.append(codec)
    return tuple(chain)


def bytes_in_chunks(codecs: Sequence[Codec]) -> str | None:
    """Return the base64 of bytes that can be at the head of each chunk instead: a TIFF's JPEG tables."""
    for codec in codecs:
        record = find(codec.name)
        if record is not None and record.in_chunks is not None:
            text: str | None = codec.configuration.get(record.in_chunks)
            return text
    return None


def without_bytes_in_chunks(codecs: Sequence[Codec]) -> tuple[Codec, ...]:
    """Return the codecs of chunks that have these bytes at their heads."""
    chain: list[Codec] = []
    for codec in codecs:
        record = find(codec.name)
        if record is None or record.in_chunks is None:
            chain.append(codec)
            continue
        members = {name: value for name, value in codec.configuration.items() if name != record.in_chunks}
        chain.append(CodecSpec(codec.name, members))
    return tuple(chain)


def member_in_chunks(name: str) -> str | None:
    """Return the member of a codec whose bytes can be at the head of each chunk instead."""
    record = find(name)
    return None if record is None else record.in_chunks


def _changed(change: Change, codec: Codec, axes: int) -> Codec | None:
    try:
        return change(codec, axes)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"{codec.name} has no configuration of its kind: {error!r}"
        raise UnrepresentableError(message, field="codecs") from error


def _record(codec: Codec) -> CodecRecord:
    record = find(codec.name)
    if record is None:
        raise UnrepresentableError(
            f"codec {codec.name}, of which jnrrdz does not know how it reads chunks with one more axis; "
            f"{', '.join(all_records())} are known",
            field="codecs",
        )
    return record
