"""The boxes of a JP2, JPX or JPH file: where codestreams are, and what their samples mean.

May touch errors only; bytes come through `read(start, stop)`.  Boxes of unknown types are passed
over; contents are read only where they are small or asked for.
Spec: ITU-T T.800, annex I; T.801, annex M (labels, associations)
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from jnrrdz.errors import MalformedError

type ReadRange = Callable[[int, int], bytes]
type Span = tuple[int, int]

SIGNATURE = b"\0\0\0\x0cjP  \r\n\x87\n"
CONTENTS = {b"jp2h", b"jpch", b"jplh", b"asoc", b"res ", b"cgrp", b"uinf"}
"""Boxes that hold boxes."""

MAX_BOXES = 1 << 16
MAX_DEPTH = 16
MAX_BODY = 16 << 20
XL = struct.Struct(">Q")
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
        if box.stop - box.start > MAX_BODY:
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
    walk = _Walk(read)
    top = tuple(walk.boxes(start, stop, 0))
    return Boxes(top, read, tuple(walk.problems))


class _Walk:
    """Counts the boxes of one file and notes what is broken."""

    def __init__(self, read: ReadRange) -> None:
        self.read = read
        self.count = 0
        self.problems: list[str] = []

    def boxes(self, start: int, stop: int, depth: int) -> Iterator[Box]:
        """Yield the boxes between two places."""
        at = start
        while at + 8 <= stop:
            self.count += 1
            if self.count > MAX_BOXES or depth > MAX_DEPTH:
                raise MalformedError(
                    f"more than {MAX_BOXES} boxes, or {MAX_DEPTH} in each other", offset=at, field="box"
                )
            box = self._box(at, stop)
            if box is None:
                return
            inside = tuple(self.boxes(box.start, box.stop, depth + 1)) if box.kind in CONTENTS else ()
            yield Box(box.kind, box.start, box.stop, inside)
            at = box.stop

    def _box(self, at: int, stop: int) -> Box | None:
        """Return the box at `at` without what it holds; None where no further box can be read."""
        head = self.read(at, min(at + 16, stop))
        size, kind = int.from_bytes(head[:4], "big"), head[4:8]
        if size == 0 and kind == b"\0\0\0\0":
            return None  # zeros, with which some files are filled up
        start = at + 8
        if size == 1 and len(head) == 16:  # noqa: PLR2004  XLBox stands there
            size, start = XL.unpack(head[8:])[0], at + 16
        end = stop if size == 0 else at + size
        if end > stop and kind == b"jp2c":
            end = stop  # the codestream says itself where it ends
        if not start <= end <= stop:
            shown = kind.decode("latin-1").strip()
            self.problems.append(f"{shown}: a box of {size} bytes at byte {at}, {stop - at} are left")
            return None
        return Box(kind, start, end)
