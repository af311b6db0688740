"""Lines of references that differ in nothing but numbers, as columns.

May touch numpy and read.keys.  The chunks of one array in one file make up nearly
all of a large manifest.  Such lines are read without an object for any of them: what they have in
common is taken away, and what remains has to be rows of numbers, character by character.
"""

import re
from typing import NamedTuple

import numpy as np

from jnrrdz.manifests.columns import Ints
from jnrrdz.manifests.keys import ChunkKeys

_LINE = re.compile(rb'"([^"\\\x00-\x1f]+)":\["([^"\\\x00-\x1f]+)",[0-9]+,[0-9]+\],?')
_DIGITS = b"0123456789"
_COMMAS = bytes.maketrans(b"/.;\n", b",,,,")


class Line(NamedTuple):
    """A line `"key":["url",offset,length]`, as far as it is the same in others."""

    key: str
    url: str
    middle: bytes
    """From the key's last quote to the comma before the offset."""


class Rows(NamedTuple):
    """The numbers of some lines."""

    chunks: Ints
    offset: Ints
    length: Ints


def first_line(text: bytes) -> Line | None:
    """Return the first line, None where it is of another form."""
    found = _LINE.fullmatch(text.partition(b"\n")[0])
    if found is None:
        return None
    try:
        key, url = found[1].decode(), found[2].decode()
    except UnicodeDecodeError:
        return None
    return Line(key, url, b'":["' + found[2] + b'",')


def read_rows(text: bytes, line: Line, keys: ChunkKeys, limit: int) -> Rows | None:
    """Return the numbers of lines like the first one; None where any is of another form or above `limit`."""
    opening = b'"' + keys.prefix.encode()
    if not keys.grid or not text.startswith(opening) or not text.endswith(b"]"):
        return None
    rest, count = _replaced(text[len(opening) : -1], line.middle, b";")
    rest, joints = _replaced(rest, b"],\n" + opening, b"\n")
    # a mark for each replacement, and none that was there before
    marks = (keys.separator * (len(keys.grid) - 1) + ";,\n").encode() * count
    if joints != count - 1 or rest.translate(None, _DIGITS) + b"\n" != marks:
        return None
    table = _table(rest.translate(_COMMAS), (count, len(keys.grid) + 2))
    if table is None or table[:, -2:].max() > limit:
        return None
    chunks = keys.numbers_at(table[:, :-2])
    return None if chunks is None else Rows(chunks, table[:, -2].copy(), table[:, -1].copy())


def _replaced(text: bytes, old: bytes, new: bytes) -> tuple[bytes, int]:
    """Return the text with replacements, and how many there were."""
    result = text.replace(old, new)
    return result, (len(text) - len(result)) // (len(old) - len(new))


def _table(text: bytes, shape: tuple[int, int]) -> Ints | None:
    """Return a table of decimal numbers with commas between; None where one is missing or begins with zeros."""
    padded = b"," + text + b","
    if b",," in padded:
        return None
    found = np.fromstring(text, np.int64, sep=",").reshape(shape)  # a number too large becomes the largest
    leading = padded.count(b",0")
    if leading and (leading != np.count_nonzero(found == 0) or b",00" in padded):
        return None
    return found
