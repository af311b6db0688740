"""Tagged record extensions (TREs): the list of them, and the fields of those whose layout is known.

May touch errors, jbpy (imported only when called) and the layouts of RPCs.  An extension that is
damaged costs itself and those behind it, never the pixels; one that nobody here knows is kept as
text, or as base64 where it is none.
Spec: https://nsgreg.nga.mil/doc/view?i=5533 (JBP-2025.1, table 5.9), STDI-0002
"""

import base64
import io
import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from jnrrdz.errors import JnrrdzError, MalformedError
from jnrrdz.formats.nitf.nitf_tre_layout import layout_of, read_fields
from jnrrdz.formats.nitf.tre_tables import FIXED, VARYING

TAG = 6
LENGTH = 5
MAX_TRES = 1 << 12
SHOWN = 40
FAULTS = (ValueError, TypeError, KeyError, IndexError, AssertionError, UnicodeDecodeError, ArithmeticError)
"""What jbpy raises at fields that are none."""

type Fields = dict[str, Any]


@dataclass(frozen=True)
class Tre:
    """One extension: its tag and its bytes."""

    tag: str
    data: bytes


def split_tres(data: bytes, problems: list[str]) -> list[Tre]:
    """Return the extensions that follow each other in a header; what breaks off is noted."""
    return list(_walk(data, problems))


def _walk(data: bytes, problems: list[str]) -> Iterator[Tre]:
    at = 0
    for _ in range(MAX_TRES):
        rest = data[at:]
        if not rest.strip(b" \0"):
            return
        tag, digits = rest[:TAG], rest[TAG : TAG + LENGTH]
        if not (digits.isdigit() and len(digits) == LENGTH and tag.isascii()):
            problems.append(f"{rest[:SHOWN]!r} is no extension")
            return
        body = rest[TAG + LENGTH : TAG + LENGTH + int(digits)]
        if len(body) < int(digits):
            problems.append(f"{tag.decode()}: {int(digits)} bytes where {len(body)} are left")
            return
        yield Tre(tag.decode("ascii").rstrip(), body)
        at += TAG + LENGTH + int(digits)
    problems.append(f"more than {MAX_TRES} extensions")


def described(tre: Tre, problems: list[str]) -> Fields:
    """Return an extension for attributes: its tag, and its fields, text or bytes."""
    try:
        fields = _fields(tre)
    except JnrrdzError as error:
        problems.append(str(error))
        fields = None
    if fields is not None:
        return {"tag": tre.tag, "fields": fields}
    if all(32 <= byte < 127 or byte in b"\r\n\t" for byte in tre.data):  # noqa: PLR2004  printable ASCII
        return {"tag": tre.tag, "text": tre.data.decode("ascii").rstrip()}
    return {"tag": tre.tag, "base64": base64.b64encode(tre.data).decode("ascii")}


def _fields(tre: Tre) -> Fields | None:
    """Return the fields of an extension whose layout is known, None of any other."""
    layout = FIXED.get(tre.tag) or VARYING.get(tre.tag)
    if layout is not None:
        return read_fields(tre.tag, layout_of(layout), tre.data)
    maker = _known().get(tre.tag)
    if maker is None:
        return None
    return _by_jbpy(tre, maker)


@cache
def _known() -> dict[str, Callable[[], Any]]:
    """Return the extensions that jbpy knows; it looks them up among installed packages, which takes a while."""
    import jbpy.core  # noqa: PLC0415  a library that most scans have no use for

    logging.getLogger("jbpy").addHandler(logging.NullHandler())
    logging.getLogger("jbpy").propagate = False
    return jbpy.core.available_tres()


def _by_jbpy(tre: Tre, maker: Callable[[], Any]) -> Fields:
    whole = tre.tag.ljust(TAG).encode() + f"{len(tre.data):0{LENGTH}}".encode() + tre.data
    try:
        group = maker().load(io.BytesIO(whole))
        found = _plain(group)
    except FAULTS as error:
        raise MalformedError(f"{error}", field=tre.tag) from error
    if group.get_size() != len(whole):
        raise MalformedError(f"{len(tre.data)} bytes, its fields take {group.get_size()}", field=tre.tag)
    tag, length = list(group)[:2]
    return {name: value for name, value in found.items() if name not in {tag, length}}


def _plain(group: Any) -> Fields:
    """Return a jbpy group's values as JSON has them."""
    return {name: _value(group[name]) for name in group}


def _value(field: Any) -> Any:
    if not hasattr(field, "encoded_value"):
        return _plain(field)
    value = field.value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, float) and not math.isfinite(value):
        return field.encoded_value.decode("latin-1").strip()
    return list(value) if isinstance(value, tuple) else value
