"""A format whose parser is another library's: a file says what the parser does with it."""

import ctypes
import os
import re
from pathlib import Path

import numpy as np

from jnrrdz.core.arrays import VirtualArray
from jnrrdz.core.configuration import CodecSpec
from jnrrdz.core.refs import ChunkRefs
from jnrrdz.core.tree import VirtualGroup
from jnrrdz.errors import UnsupportedError
from jnrrdz.formats import FORMATS
from jnrrdz.formats.format import Format

GUEST = Format(
    "Guest",
    scan=f"{__name__}:scan",
    is_guest=True,
    magic=re.compile(rb"GUEST"),
    magic_length=5,
    endings=(".guest",),
)


def register():
    """Add the format, for a program that runs by itself."""
    FORMATS.append(GUEST)


def guest_bytes(word):
    """Return a file whose parser does what the word says."""
    return b"GUEST " + word.encode().ljust(10)


def scan(read, url, options, neighbours):  # noqa: ARG001  the signature of every scan
    """Do what the file says, and return an array of its bytes."""
    word = read(6, 16).strip().decode()
    if word == "spin":
        Path(f"{url}.pid").write_text(str(os.getpid()))
        re.fullmatch("(a*)*b", "a" * 60)  # for years, with the interpreter's lock
    if word == "grow":
        grown = [bytearray(1 << 24)]
        while True:
            grown.append(bytearray(grown[-1]))
    if word == "exit":
        os._exit(7)
    if word == "crash":
        ctypes.string_at(0)
    if word == "refuse":
        raise UnsupportedError("refused", offset=6, field="word")
    other = "/etc/hostname" if word == "elsewhere" else url
    refs = ChunkRefs.single(other, [0], [16])
    codecs = (CodecSpec("bytes", {}),)
    array = VirtualArray((16,), np.dtype("u1"), (16,), codecs, refs, ("x",))
    return VirtualGroup({"data": array}, {"process": os.getpid()})
