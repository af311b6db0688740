"""The boxes of a JP2, JPX or JPH file: where its codestreams are, and what they say of the samples' colours.

Boxes of unknown types are passed over; contents are read only where they are small or asked for.
Spec: ITU-T T.800, annex I; T.801, annex M (labels, associations, further colour spaces)
"""

import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.limits import BOX_BYTES, BOXES, BOXES_DEEP
from jnrrdz.errors import MalformedError

type ReadRange = Callable[[int, int], bytes]
type Span = tuple[int, int]

SIGNATURE = b"\0\0\0\x0cjP  \r\n\x87\n"
CONTENTS = {b"jp2h", b"jpch", b"jplh", b"asoc", b"res ", b"cgrp", b"uinf"}
"""Boxes that hold boxes."""

UUID_BYTES = 16


@dataclass(frozen=True)
class Box:
    """One box: its type, its contents' place, and the boxes in it."""

    kind: bytes
    start: int
    stop: int
    children: tuple["Box", ...] = ()

    def walk(self) -> Iterator["Box"]:
        """Yield this box and all in it."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, eq=False)
class Boxes:
    """The boxes of one file, and their contents as far as they are asked for."""

    top: tuple[Box, ...]
    read: ReadRange = field(repr=False)
    problems: tuple[str, ...] = ()
    """What is broken about boxes that the pixels do not depend on."""

    @property
    def codestreams(self) -> list[Span]:
        """Where the contiguous codestreams are."""
        return [(box.start, box.stop) for box in self.top if box.kind == b"jp2c"]

    def all(self, kind: bytes) -> Iterator[Box]:
        """Yield the boxes of one type, wherever they are."""
        return (box for top in self.top for box in top.walk() if box.kind == kind)

    def body(self, box: Box) -> bytes:
        """Return a box's contents."""
        if box.stop - box.start > BOX_BYTES:
            raise MalformedError(
                f"a box of {box.stop - box.start} bytes", offset=box.start, field=box.kind.decode("latin-1").strip()
            )
        return self.read(box.start, box.stop)

    def first(self, kind: bytes) -> bytes | None:
        """Return the contents of the first box of one type, None where there is none."""
        box = next(self.all(kind), None)
        return None if box is None else self.body(box)

    def uuid(self, identifier: bytes) -> list[bytes]:
        """Return the contents of the UUID boxes of one identifier."""
        return [
            self.body(box)[UUID_BYTES:]
            for box in self.all(b"uuid")
            if self.read(box.start, min(box.start + UUID_BYTES, box.stop)) == identifier
        ]


def parse_boxes(read: ReadRange, start: int, stop: int) -> Boxes:
    """Return the boxes of a window; one that would end behind the box around it is left out, with all after it."""
    problems: list[str] = []
    count = 0

    def boxes(at: int, stop: int, depth: int) -> Iterator[Box]:
        nonlocal count
        while at + 8 <= stop:
            count += 1
            if count > BOXES or depth > BOXES_DEEP:
                raise MalformedError(f"more than {BOXES} boxes, or {BOXES_DEEP} in each other", offset=at, field="box")
            head = read(at, min(at + 16, stop))
            size, kind = int.from_bytes(head[:4], "big"), head[4:8]
            if size == 0 and kind == b"\0\0\0\0":
                return  # zeros, with which some files are filled up
            body = at + 8
            if size == 1 and len(head) == 16:  # noqa: PLR2004  XLBox stands there
                size, body = int.from_bytes(head[8:], "big"), at + 16
            end = stop if size == 0 else at + size
            if end > stop and kind == b"jp2c":
                end = stop  # the codestream says itself where it ends
            if not body <= end <= stop:
                shown = kind.decode("latin-1").strip()
                problems.append(f"{shown}: a box of {size} bytes at byte {at}, {stop - at} are left")
                return
            yield Box(kind, body, end, tuple(boxes(body, end, depth + 1)) if kind in CONTENTS else ())
            at = end

    top = tuple(boxes(start, stop, 0))
    return Boxes(top, read, tuple(problems))


SYCC = 18
COLOUR_SPACES = {
    0: "bilevel",
    1: "YCbCr(1)",
    3: "YCbCr(2)",
    4: "YCbCr(3)",
    9: "PhotoYCC",
    11: "CMY",
    12: "CMYK",
    13: "YCCK",
    14: "CIELab",
    15: "bilevel(2)",
    16: "sRGB",
    17: "greyscale",
    SYCC: "sYCC",
    19: "CIEJab",
    20: "e-sRGB",
    21: "ROMM-RGB",
    24: "e-sYCC",
}
CHANNELS = {
    0: ("bilevel",),
    12: ("cyan", "magenta", "yellow", "black"),
    16: ("red", "green", "blue"),
    17: ("gray",),
    SYCC: ("Y", "Cb", "Cr"),
    20: ("red", "green", "blue"),
    21: ("red", "green", "blue"),
}
"""What the colours of a space are, in the order of their numbers."""

ENUMERATED = 1
PROFILES = {2, 3}
OPACITY = {1, 2}
PREMULTIPLIED = 2
WHOLE_IMAGE = 0
NO_COLOUR = 65535
MAX_ENTRIES = 1024


@dataclass(frozen=True, eq=False)
class Palette:
    """The columns of a palette: entries by columns."""

    values: NDArray[np.int64]
    bits: tuple[int, ...]

    @property
    def colours(self) -> NDArray[np.uint8] | None:
        """Red, green and blue (and opacity) of each entry in 8 bits; None where the columns are something else."""
        count = self.values.shape[1]
        if count not in {1, 3, 4} or max(self.bits) > 8:  # noqa: PLR2004
            return None
        table = (self.values * 255 // ((1 << np.array(self.bits)) - 1)).astype(np.uint8)
        return np.repeat(table, 3, axis=1) if count == 1 else table


@dataclass(frozen=True, eq=False)
class Colour:
    """What a file says of its samples' colours and of their size."""

    space: int | None = None
    profile: bytes | None = None
    palette: Palette | None = None
    channels: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By channel: its type (colour, opacity) and the colour that it belongs to."""

    resolution: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Samples a metre, down and across, at capture and for display."""

    @property
    def is_premultiplied(self) -> bool:
        """Whether colours are multiplied by an opacity already."""
        return any(kind == PREMULTIPLIED for kind, _ in self.channels.values())

    def names(self, count: int) -> list[str]:
        """Return what each of so many channels shows, by the names that rasterio gives to GDAL's interpretations."""
        colours = CHANNELS.get(-1 if self.space is None else self.space, ())
        names = []
        for channel in range(count):
            kind, belongs = self.channels.get(channel, (0, channel + 1))
            name = "alpha" if kind in OPACITY else "undefined"
            if kind == 0 and belongs not in {WHOLE_IMAGE, NO_COLOUR} and belongs <= len(colours):
                name = colours[belongs - 1]
            names.append(name)
        return names


def parse_colour(boxes: Boxes) -> Colour:
    """Return what the boxes say; the first colour specification counts, as the standard has it."""
    colr = boxes.first(b"colr") or b""
    resolution: dict[str, tuple[float, float]] = {}
    for name, kind in (("capture", b"resc"), ("display", b"resd")):
        body = boxes.first(kind)
        if body is None or len(body) < 10:  # noqa: PLR2004
            continue
        vn, vd, hn, hd, ve, he = struct.unpack(">HHHHbb", body[:10])
        if not vd or not hd:
            raise MalformedError(f"a resolution of {vn}/{vd}, {hn}/{hd}", field="res")
        samples = (vn / vd * math.pow(10, ve), hn / hd * math.pow(10, he))
        if min(samples) > 0:
            resolution[name] = samples
    palette, cdef = _palette(boxes.first(b"pclr")), boxes.first(b"cdef")
    cdef = bytes(2) if cdef is None else cdef
    count = int.from_bytes(cdef[:2], "big")
    if len(cdef) < 2 + 6 * count:
        raise MalformedError(f"{len(cdef)} bytes for {count} channels", field="cdef")
    entries = struct.iter_unpack(">HHH", cdef[2 : 2 + 6 * count])
    return Colour(
        space=int.from_bytes(colr[3:7], "big") if colr[:1] == bytes([ENUMERATED]) and len(colr) >= 7 else None,  # noqa: PLR2004
        profile=colr[3:] if colr[:1] and colr[0] in PROFILES else None,
        palette=palette,
        channels={number: (kind, belongs) for number, kind, belongs in entries},
        resolution=resolution,
    )


def _palette(body: bytes | None) -> Palette | None:
    if body is None:
        return None
    entries, columns = (int.from_bytes(body[:2], "big"), body[2]) if len(body) > 2 else (0, 0)  # noqa: PLR2004
    bits = tuple((value & 0x7F) + 1 for value in body[3 : 3 + columns])
    widths = [(width + 7) // 8 for width in bits]
    if not 1 <= entries <= MAX_ENTRIES or not columns or len(body) < 3 + columns + entries * sum(widths):
        raise MalformedError(f"{len(body)} bytes for {entries} entries of {columns} columns", field="pclr")
    rows = np.frombuffer(body, np.uint8, entries * sum(widths), 3 + columns).reshape(entries, -1)
    values = np.zeros((entries, columns), np.int64)
    for number, (width, end) in enumerate(zip(widths, np.cumsum(widths).tolist(), strict=True)):
        for byte in range(end - width, end):
            values[:, number] = values[:, number] << 8 | rows[:, byte]
    return Palette(values, bits)
