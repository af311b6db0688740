"""What a format says of itself; nothing outside of its folder has to name it.

It stands apart from what a scan is given because the command line's help asks for endings and options of formats,
and imports nothing heavy for it.
"""

import re
from typing import Any

from jnrrdz.records import record, resolved


@record
class Format:
    """A format that jnrrdz reads; functions are named `module:function` and imported when they are first called."""

    name: str

    scan: str
    """Returns the virtual group of a source: `scan(read, url, options, neighbours)`, of a directory
    `scan(tree, options)`."""

    magic: re.Pattern[bytes] | None = None
    """What a file has at `magic_start`; a directory has none."""

    magic_start: int = 0
    magic_length: int = 0
    """The most bytes that `magic` looks at."""

    endings: tuple[str, ...] = ()
    """Of names that a batch takes from a prefix, in lower case."""

    media_types: tuple[str, ...] = ()
    """Of assets that a STAC item gives as this format."""

    options: tuple[str, ...] = ()
    """Members of `ScanOptions` that no other format understands; they are refused elsewhere."""

    is_guest: bool = False
    """Whether `scan` runs parsers of other libraries: in `batch` and `serve` a worker
    process calls it (`formats.guests`)."""

    is_directory: bool = False

    marks: tuple[str, ...] = ()
    """Files at the root of a directory, any of which tells that it is of this format."""

    folder: re.Pattern[str] | None = None
    """The name of a directory that holds a product: images and the document that
    describes them, which is what `scan` takes."""

    document: re.Pattern[str] | None = None
    """The name of the document in such a directory."""

    documents: tuple[str, ...] = ()
    """Names of the document that are tried where nothing lists the directory, whose own
    name replaces `{name}`."""

    decoders: str | None = None
    """Yields a `DecoderState` for each way to compress, as it is in this environment."""

    in_place: str | None = None
    """Returns the tree of a directory as Zarr would have it in the very same place: `in_place(tree, options)`."""

    verify_listing: str | None = None
    """Returns what looks for objects that a directory got since it was scanned: `verify_listing(recorded)` takes the
    keys of the recorded documents, `add(keys, sizes, marks)` the others of a listing, `differences(read)` yields each
    new key with a message."""

    verify_tables: str | None = None
    """Returns what compares the tables of files with their contents: `verify_tables(nodes, arrays)` takes the
    documents of a manifest and its `StoredArray`s, by path.  `contradictions()` yields paths with a message,
    `checked_chunks()` returns by path the chunks that begin with a tile that has a checksum, and the tile's number,
    and `difference(path, chunk, tile)` a message where the checksum differs."""

    def fits(self, head: bytes) -> bool:
        """Whether a file that starts with `head` is of this format."""
        return self.magic is not None and self.magic.match(head, self.magic_start) is not None

    def is_folder(self, name: str) -> bool:
        """Whether the name of a directory shows that it is of this format."""
        if self.folder is not None:
            return self.folder.fullmatch(name) is not None
        return self.is_directory and name.lower().endswith(self.endings)

    def call(self, function: str, *arguments: Any) -> Any:
        """Return what one of the format's functions returns: `call("scan", ...)`."""
        return resolved(getattr(self, function))(*arguments)


@record
class DecoderState:
    """One way to compress, and what decodes it in this environment."""

    name: str
    by: str | None
    reason: str | None
    """Why it cannot be decoded; None if it can."""

    number: int | None = None
    meaning: str | None = None
