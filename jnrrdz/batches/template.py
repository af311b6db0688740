"""An output's name for every source: `s3://out/{path}.json`.

May touch errors, URLs and the model's item.  What a placeholder is filled with may come from a listing or a STAC
item that someone else wrote: it is never a way out of the folder that the template names.
"""

import re
from urllib.parse import unquote, urlsplit

from jnrrdz.batches.item import Found
from jnrrdz.errors import UnrepresentableError, UnsupportedError
from jnrrdz.sources.url import HTTP, scheme

PLACEHOLDERS = {
    "stem": "the source's name without its last ending",
    "name": "the source's name",
    "path": "the path below the prefix or pattern that found it (else its whole path), without its last ending",
    "parent": "the name of the directory that holds it",
    "index": "its number in the order of the batch, from 0, at least six digits",
    "id": "of a STAC item",
    "collection": "of a STAC item",
    "asset": "the key of a STAC item's asset",
}
_FIELD = re.compile(r"\{([^{}]*)\}")
_UNSAFE = re.compile(r"[\x00-\x1f\x7f]")


class Template:
    """A name with placeholders, checked when it is made."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names = tuple(_FIELD.findall(text))
        left = _FIELD.sub("", text)
        if "{" in left or "}" in left:
            raise UnsupportedError("a brace that belongs to no placeholder", url=text, field="output")
        for name in self.names:
            if name not in PLACEHOLDERS:
                known = ", ".join(f"{{{known}}}" for known in PLACEHOLDERS)
                raise UnsupportedError(f"no placeholder {{{name}}}; there are {known}", url=text, field="output")

    @property
    def is_fixed(self) -> bool:
        """Whether every source would have the same output."""
        return not self.names

    def filled(self, found: Found, number: int) -> str:
        """Return the output of one source."""
        values = _values(found, number)

        def value(match: re.Match[str]) -> str:
            if match[1] not in values:
                raise UnrepresentableError(f"{{{match[1]}}} is known of STAC items only", url=found.url, field="output")
            return _safe(values[match[1]], match[1], found.url)

        return _FIELD.sub(value, self.text)


def _values(found: Found, number: int) -> dict[str, str]:
    whole = source_path(found.url)
    folder, _, name = whole.rpartition("/")
    below = whole if found.path is None else found.path
    return {
        "name": name,
        "stem": _without_ending(name),
        "path": _without_ending(below.strip("/")),
        "parent": folder.rpartition("/")[2],
        "index": f"{number:06}",
        **dict(found.names),
    }


def source_path(url: str) -> str:
    """Return the path of a source: the key in a bucket, the decoded path of an HTTP URL; no slash at its end."""
    kind = scheme(url)
    if kind in HTTP:
        return unquote(urlsplit(url).path).rstrip("/")
    if "://" not in url:
        return url.rstrip("/")
    path = url.partition("://")[2].rstrip("/")
    return path if kind == "file" else path.partition("/")[2]


def _without_ending(path: str) -> str:
    folder, slash, name = path.rpartition("/")
    stem = name.rpartition(".")[0] or name
    return f"{folder}{slash}{stem}"


def _safe(value: str, name: str, url: str) -> str:
    """Return a value that stays where the template puts it: no empty name, `..`, backslash or control character."""
    parts = value.split("/")
    slashed = len(parts) > 1 and name != "path"
    if slashed or "\\" in value or _UNSAFE.search(value) or any(part in {"", ".", ".."} for part in parts):
        raise UnrepresentableError(f"{{{name}}} is {value!r}, which is no name for an output", url=url, field="output")
    return value
