"""NITF 2.0 and 2.1 files field by field, by a few lines that know neither jnrrdz's tables nor jbpy's.

Pure: fields in, bytes out.
"""

V20, V21 = b"NITF02.00", b"NITF02.10"


SECURITY = b"U" + b" " * 166
"""The fields of any header, unclassified: both versions have as many bytes of them."""


def file_bytes(header, data, *, version=V20, extensions=(), symbols=(), labels=()):  # noqa: PLR0913  kinds of segments
    """Return a file of one image and of pairs of header and data of other segments."""
    head = version + b"03BF01test      14120000ZJAN01" + b"a title".ljust(80) + SECURITY + b"00001000010"
    head += (b" " * 27 if version == V20 else b"\0\0\0" + b" " * 24) + b" " * 18
    tail, body = b"001%06d%010d" % (len(header), len(data)), header + data
    kinds = [(symbols, 6)]
    kinds.append((labels if version == V20 else (), 3))
    for segments, width in [*kinds, ((), 5), (extensions, 9), ((), 7)]:
        tail += b"%03d" % len(segments)
        for one, its in segments:
            tail += b"%04d%0*d" % (len(one), width, len(its))
            body += one + its
    tail += b"00000" + b"00000"
    length = len(head) + 18 + len(tail)
    return head + b"%012d%06d" % (length + len(body), length) + tail + body


FIELDS = {
    "version": V20,
    "iid": b"test",
    "title": b"",
    "pvtype": b"INT",
    "irep": b"MONO",
    "abpp": 8,
    "pjust": b"R",
    "igeolo": None,
    "comments": (),
    "ic": b"NC",
    "bands": ((b"M", ()),),
    "is_many": False,
    "isync": 0,
    "imode": b"B",
    "grid": (1, 1),
    "block": None,
    "nbpp": 8,
    "udid": (b"", 0),
    "ixshd": (b"", 0),
}


def image_header(rows, columns, **changes):
    """Return the subheader of an image; bands are pairs of IREPBAND and lookup tables."""
    has = FIELDS | changes
    version, bands = has["version"], has["bands"]
    header = b"IM" + has["iid"].ljust(10) + b"14120000ZJAN01" + b" " * 17 + has["title"].ljust(80) + SECURITY
    header += b"0" + b" " * 42 + b"%08d%08d" % (rows, columns)
    header += has["pvtype"].ljust(3) + has["irep"].ljust(8) + b"VIS     " + b"%02d" % has["abpp"] + has["pjust"]
    header += (b"N" if version == V20 else b" ") if has["igeolo"] is None else b"G" + has["igeolo"]
    header += b"%d" % len(has["comments"]) + b"".join(one.ljust(80) for one in has["comments"]) + has["ic"]
    header += b"0%05d" % len(bands) if has["is_many"] or len(bands) > 9 else b"%d" % len(bands)
    for name, luts in bands:
        header += name.ljust(2) + b" " * 6 + b"N   " + b"%d" % len(luts)
        header += b"%05d" % len(luts[0]) + b"".join(luts) if luts else b""
    high, wide = has["block"] or (rows, columns)
    header += b"%d" % has["isync"] + has["imode"] + b"%04d%04d%04d%04d" % (*reversed(has["grid"]), wide, high)
    header += b"%02d" % has["nbpp"] + b"001000" + b"0" * 10 + b"1.0 "
    for tres, overflow in (has["udid"], has["ixshd"]):
        header += b"%05d%03d" % (len(tres) + 3, overflow) + tres if tres or overflow else b"00000"
    return header


def overflow_header(version, field, item):
    """Return the subheader of the segment with the extensions that had no room in `field` of the `item`-th header."""
    name = (
        b"TRE_OVERFLOW" if version == V21 else b"Controlled Extensions" if b"X" in field else b"Registered Extensions"
    )
    return b"DE" + name.ljust(25) + b"01" + SECURITY + field.ljust(6) + b"%03d0000" % item
