"""The headers of a FITS file, checked before astropy reads them.

astropy looks a keyword with `*`, `?` or `...` up as a pattern: a few of them take hours,
and nothing else of the process runs meanwhile.  It believes counts such as NAXIS, too.
Cards with such keywords are blanked, counts outside of the standard are refused.

Follows https://fits.gsfc.nasa.gov/standard40/fits_standard40aa-le.pdf, sections 3 and 4.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from jnrrdz.core.limits import FITS_BLOCKS, FITS_UNITS
from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.sources.ranges import ReadRange

BLOCK = 2880
CARD = 80
KEYWORD = 8

BITPIX = {8, 16, 32, 64, -32, -64}
MOST_AXES = 999
COUNTS = {"NAXIS": MOST_AXES, "TFIELDS": MOST_AXES, "ZNAXIS": MOST_AXES}
SIZES = re.compile(r"Z?NAXIS[1-9][0-9]{0,2}|PCOUNT|GCOUNT|ZTILE[1-9][0-9]{0,2}")

_END = re.compile(rb"END(?![A-Z0-9_-])")
_INTEGER = re.compile(rb" *([+-]?[0-9]{1,20}) *(?:/.*)?", re.DOTALL)
_PATTERN = re.compile(rb"[*?]|\.\.\.")
_COMMENTARY = {b"", b"COMMENT", b"HISTORY", b"CONTINUE"}


@dataclass
class Headers:
    """The headers of a file."""

    stop: int = 0
    """Where the last HDU ends; special records may follow, which readers ignore."""

    blanked: dict[int, str] = field(default_factory=dict)
    """The offsets of cards that astropy must not read, and why: `{160: "keyword '...'"}`."""

    blocks: int = 0


def check_headers(read: ReadRange, size: int) -> Headers:
    """Return where the cards of a file are that astropy must not read."""
    headers = Headers()
    for _ in range(FITS_UNITS):
        if headers.stop >= size:
            return headers
        if headers.stop and read(headers.stop, headers.stop + KEYWORD) != b"XTENSION":
            return headers
        start, stop, counts = _check_header(read, headers)
        headers.stop = stop + _data_size(counts, start)
    raise UnsupportedError(f"more than {FITS_UNITS} header and data units")


def _check_header(read: ReadRange, headers: Headers) -> tuple[int, int, dict[str, int]]:
    """Return start and end of the next header, and the counts in it."""
    start = block_start = headers.stop
    counts: dict[str, int] = {}
    is_blanked = False
    while True:
        headers.blocks += 1
        if headers.blocks > FITS_BLOCKS:
            raise UnsupportedError(f"headers of more than {FITS_BLOCKS} blocks")
        block = read(block_start, block_start + BLOCK)
        for place in range(0, len(block), CARD):
            card = block[place : place + CARD]
            if _END.match(card):
                return start, block_start + BLOCK, counts
            if is_blanked and card.startswith(b"CONTINUE"):
                headers.blanked[block_start + place] = "continues a card left out"
                continue
            keyword = _keyword(card)
            is_blanked = _PATTERN.search(keyword) is not None
            if is_blanked:
                said = keyword.decode("latin-1")
                headers.blanked[block_start + place] = f"keyword {said!r} is a pattern"
            else:
                _take_count(keyword, card, block_start + place, counts)
        if len(block) < BLOCK:
            message = "the file ends inside of a header"
            raise MalformedError(message, offset=start, field="END")
        block_start += BLOCK


def _keyword(card: bytes) -> bytes:
    """Return the keyword by which astropy looks a card up."""
    keyword = card[:KEYWORD].strip()
    if keyword.upper() in _COMMENTARY:
        return b""
    if keyword.upper() == b"HIERARCH" and card[KEYWORD : KEYWORD + 1] == b" ":
        name, equals, _ = card[KEYWORD:].partition(b"=")
        return name.strip() if equals else keyword
    name, equals, _ = card[: KEYWORD + 1].partition(b"=")
    return name.strip() if equals else keyword


def _take_count(keyword: bytes, card: bytes, offset: int, counts: dict[str, int]) -> None:
    """Add the value of a card to the counts, where it has one."""
    name = keyword.decode("latin-1").upper()
    if name == "GROUPS":
        counts.setdefault(name, int(card.partition(b"=")[2].lstrip()[:1] == b"T"))
    is_count = name == "BITPIX" or name in COUNTS or SIZES.fullmatch(name)
    if not is_count:
        return
    match = _INTEGER.fullmatch(card.partition(b"=")[2])
    if match is None:
        raise MalformedError("not an integer", offset=offset, field=name)
    value = int(match[1])
    if counts.setdefault(name, value) != value:
        message = f"{value} here and {counts[name]} in another card of the header"
        raise MalformedError(message, offset=offset, field=name)
    if name == "BITPIX":
        if value not in BITPIX:
            known = ", ".join(map(str, sorted(BITPIX)))
            message = f"{value} bits a sample, where one of {known} belongs"
            raise MalformedError(message, offset=offset, field=name)
        return
    most = COUNTS.get(name, (1 << 63) - 1)
    if not 0 <= value <= most:
        message = f"{value}, where a number from 0 to {most} belongs"
        raise MalformedError(message, offset=offset, field=name)


def _data_size(counts: Mapping[str, int], offset: int) -> int:
    """Return the bytes of the data unit behind a header, with its padding."""
    axes = counts.get("NAXIS", 0)
    if not axes:
        return 0
    names = [f"NAXIS{axis}" for axis in range(1, axes + 1)]
    missing = [name for name in ("BITPIX", *names) if name not in counts]
    if missing:
        raise MalformedError("not in the header", offset=offset, field=missing[0])
    sides = [counts[name] for name in names]
    if counts.get("GROUPS") and sides[0] == 0:
        del sides[0]
    samples = counts.get("GCOUNT", 1) * (counts.get("PCOUNT", 0) + math.prod(sides))
    size = samples * abs(counts["BITPIX"]) // 8
    return -(-size // BLOCK) * BLOCK
