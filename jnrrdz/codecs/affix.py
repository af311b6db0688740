"""Bytes of a fixed length that stand before or after an encoded chunk: what `offset` and `pad` share.

May touch errors only.  Follows docs/codecs/offset and docs/codecs/pad: the bytes are a literal
(base64 in metadata), or computed from the encoded chunk by a function that metadata cannot name,
or zeros.  Every check names the configuration's field that it is about.
"""

import base64
import binascii
from collections.abc import Callable, Collection, Mapping

from jnrrdz.errors import MalformedError

type ChunkFunction = Callable[[bytes], bytes]
"""From the encoded chunk to the bytes that go with it."""


def checked_configuration(
    configuration: object, *, required: Collection[str], optional: Collection[str]
) -> Mapping[str, object]:
    """Return the configuration, which has every required key and no unknown one."""
    if not isinstance(configuration, Mapping):
        found = "none" if configuration is None else repr(configuration)
        raise MalformedError(f"found {found}; an object with {_listed(required)} is needed", field="configuration")
    if missing := [key for key in required if key not in configuration]:
        raise MalformedError(f"{_listed(missing)} missing", field="configuration")
    if unknown := [str(key) for key in configuration if key not in required and key not in optional]:
        known = _listed([*required, *optional])
        raise MalformedError(f"{_listed(unknown)} unknown; the codec has {known}", field="configuration")
    return configuration


def checked_length(value: object, *, field: str) -> int:
    """Return a number of bytes."""
    # true is an int to Python, but not a number of bytes
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise MalformedError(f"found {value!r}; an integer of 0 or more is needed", field=field)
    return value


def decoded_literal(value: object, *, field: str) -> bytes:
    """Return the bytes of a literal that is given in base64."""
    if not isinstance(value, str):
        raise MalformedError(f"found {value!r}; base64 text is needed", field=field)
    try:
        literal = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise MalformedError(f"not base64 (RFC 4648, section 4): {error}", field=field) from error
    # the decoder drops stray bits after the last byte; then the text would not survive a round trip
    if base64.b64encode(literal).decode("ascii") != value:
        raise MalformedError("not canonical base64: the bits after the last byte are not zero", field=field)
    return literal


def check_literal(literal: object, nbytes: int, *, field: str, length_field: str) -> None:
    """Refuse a literal that is not exactly as long as it has to be."""
    if literal is None:
        return
    if not isinstance(literal, bytes):
        raise MalformedError(f"found {literal!r}; bytes are needed", field=field)
    if len(literal) != nbytes:
        raise MalformedError(f"{len(literal)} bytes long, but {length_field} is {nbytes}", field=field)


def check_function(function: object, literal: object, *, field: str, literal_field: str) -> None:
    """Refuse what cannot be called, and a function beside a literal."""
    if function is None:
        return
    if not callable(function):
        raise MalformedError(f"found {function!r}; a function of the encoded chunk is needed", field=field)
    if literal is not None:
        raise MalformedError(f"given together with {literal_field}; only one of them can be written", field=field)


def affix_bytes(
    chunk: memoryview, nbytes: int, literal: bytes | None, function: ChunkFunction | None, *, field: str
) -> bytes:
    """Return the bytes that go with an encoded chunk; `field` names the function."""
    if function is None:
        return bytes(nbytes) if literal is None else literal
    computed = function(bytes(chunk))
    if not isinstance(computed, bytes):
        raise MalformedError(f"returned {type(computed).__name__}; bytes are needed", field=field)
    if len(computed) != nbytes:
        raise MalformedError(f"returned {len(computed)} bytes; {nbytes} are needed", field=field)
    return computed


def _listed(names: Collection[str]) -> str:
    return ", ".join(repr(name) for name in names)
