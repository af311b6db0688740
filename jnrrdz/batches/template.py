"""How the outputs of a batch are called: a name with placeholders, such as `s3://out/{path}.json`.

What fills a placeholder may come from a listing or a STAC item that someone else wrote, and is never a way out of the
folder that the template names.
"""

import re
from urllib.parse import unquote, urlsplit

from jnrrdz.batches.item import Found
from jnrrdz.errors import UnrepresentableError, UnsupportedError
from jnrrdz.sources.url import HTTP, is_absolute, parse, scheme

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
_HOME = re.compile(r"(?:(?:file|local):)?(?://)?~[^/]*\{", re.IGNORECASE)
_SCHEME = re.compile(r"(?:\A|::)[^/:]*\{[^/]*:(?::|//)")
_AUTHORITY = re.compile(r"(?<!file)(?<!local)(?<!memory)(?<!zip)(?<!tar)://[^/]*\Z")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_COLONS = re.compile(r"\A:|:\Z|:(?=:)|(?<=:):")
_ESCAPED = re.compile(r"%(?=7E|3A|25)")


class Template:
    """A name with placeholders, checked when it is made."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names = tuple(_FIELD.findall(text))
        left = _FIELD.sub("", text)
        if "{" in left or "}" in left:
            raise UnsupportedError("a brace that belongs to no placeholder", url=text, field="--output")
        for name in self.names:
            if name not in PLACEHOLDERS:
                known = ", ".join(f"{{{known}}}" for known in PLACEHOLDERS)
                raise UnsupportedError(f"no placeholder {{{name}}}; there are {known}", url=text, field="--output")
        if _HOME.match(text):
            raise UnsupportedError("a placeholder after `~` would name a user's home", url=text, field="--output")
        if _SCHEME.search(text):
            raise UnsupportedError("a placeholder in place of a scheme", url=text, field="--output")
        sample = parse(_FIELD.sub("x", text))
        self._leads = (sample.scheme, sample.is_chained, is_absolute(sample.text))
        self._decodes = sample.scheme in HTTP or text.lower().startswith(("file:", "local:"))

    @property
    def is_fixed(self) -> bool:
        """Whether every source would have the same output."""
        return not self.names

    def short(self, output: str) -> str:
        """Return what tells an output from the others of this template: its path below the folder that all share."""
        fixed = self.text.partition("{")[0]
        name = output[fixed.rfind("/") + 1 :] if output.startswith(fixed) else output
        return _without_ending(name.rstrip("/")).replace("/", "_")

    def filled(self, found: Found, number: int) -> str:
        """Return the output of one source."""
        whole = source_path(found.url)
        folder, _, name = whole.rpartition("/")
        values = {
            "name": name,
            "stem": _without_ending(name),
            "path": _without_ending((whole if found.path is None else found.path).strip("/")),
            "parent": folder.rpartition("/")[2],
            "index": f"{number:06}",
            **dict(found.names),
        }

        output, done = "", 0
        for match in _FIELD.finditer(self.text):
            if match[1] not in values:
                raise UnrepresentableError(
                    f"{{{match[1]}}} is known of STAC items only", url=found.url, field="--output"
                )
            output += self.text[done : match.start()]
            done = match.end()
            safe = _escaped(_safe(values[match[1]], match[1], found.url), output)
            if _AUTHORITY.search(output) and not _HOST.fullmatch(safe):
                message = f"{{{match[1]}}} is {safe!r}, which is no name of a host or bucket"
                raise UnrepresentableError(message, url=found.url, field="--output")
            output += safe.replace("%", "%25") if self._decodes else safe
        output += self.text[done:]
        where = parse(output)
        if (where.scheme, where.is_chained, is_absolute(output)) != self._leads:
            raise UnrepresentableError(f"{output} would lead out of {self.text}", url=found.url, field="--output")
        return output


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
        raise UnrepresentableError(
            f"{{{name}}} is {value!r}, which is no name for an output", url=url, field="--output"
        )
    return value


def _escaped(value: str, before: str) -> str:
    """Return a value in which nothing names a home, a scheme or a chain, whatever stands before it.

    `~` and `:` are percent-encoded where they could, and a percent sign where it would look like that.
    """
    value = _ESCAPED.sub("%25", value)
    if "/" not in before:
        value = value.replace(":", "%3A")
    if not before or before.endswith((":", "//")):
        value = re.sub("^~", "%7E", value)
    return _COLONS.sub("%3A", value)
