"""TIFFs put together by hand: any tags, any directories, small and many."""

import struct

ASCII, SHORT, LONG, RATIONAL, UNDEFINED, DOUBLE = 2, 3, 4, 5, 7, 12
CODES = {SHORT: "H", LONG: "I", RATIONAL: "I", DOUBLE: "d"}
EXIF, SUB_IFDS = 34665, 330


def page(*more, width=4, height=4, size=64):
    """Return the tags of a page of one strip of zeros; those of `more` stand in for others of their number."""
    tags = {
        256: (LONG, (width,)),
        257: (LONG, (height,)),
        258: (SHORT, (8,)),
        259: (SHORT, (1,)),
        262: (SHORT, (1,)),
        277: (SHORT, (1,)),
    }
    given = [tag for tag, _, _ in more]
    if not {273, 324}.intersection(given):
        tags |= {273: (LONG, (8,)), 278: (LONG, (height,)), 279: (LONG, (width * height,))}
    plain = [(tag, kind, value) for tag, (kind, value) in tags.items() if tag not in given]
    return sorted([*plain, *more], key=lambda entry: entry[0]), max(size, width * height)


def tiff(pages, *, below=(), exif=()):
    """Return a little-endian TIFF of pages; `below` are SubIFDs of the first, `exif` its EXIF tags.

    All pixels are the zeros behind the header.
    """
    data = bytearray(b"II*\0\0\0\0\0" + bytes(max(size for _, size in [*pages, *below])))

    def put(entries):
        rows = []
        for tag, kind, value in entries:
            stored = value if isinstance(value, bytes) else struct.pack(f"<{len(value)}{CODES[kind]}", *value)
            count = len(value) // (2 if kind == RATIONAL else 1)
            if len(stored) > 4:
                data.extend(b"\0" * (len(data) % 2))
                at = struct.pack("<I", len(data))
                data.extend(stored)
                stored = at
            rows.append(struct.pack("<HHI4s", tag, kind, count, stored))
        data.extend(b"\0" * (len(data) % 2))
        start = len(data)
        data.extend(struct.pack("<H", len(rows)) + b"".join(rows) + bytes(4))
        return start

    pointers = []
    if below:
        pointers.append((SUB_IFDS, LONG, tuple(put(entries) for entries, _ in below)))
    if exif:
        pointers.append((EXIF, LONG, (put(exif),)))
    link = 4
    for number, (entries, _) in enumerate(pages):
        given = sorted([*entries, *pointers], key=lambda entry: entry[0]) if number == 0 else entries
        data[link : link + 4] = struct.pack("<I", put(given))
        link = len(data) - 4
    return bytes(data)
