"""What a URL keeps where others read it: its place, and the query members that are known to be harmless.

`bare` is the URL that a manifest names, `hidden` the one that is shown, `redacted` hides what a text holds of URLs.
The rule is a list of what may stay.  User info, matrix parameters, fragments and every other member of a query go, and
so do the paths of share links, which are themselves the permission to read.  All of it takes time in proportion to
the text.  Decision 023 has the reasons; URLs: RFC 3986, matrix parameters: its section 3.3.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import fields, replace
from typing import Any
from urllib.parse import unquote

from jnrrdz.records import record

HIDDEN = "REDACTED"

EVERYTHING = "*"
"""Among the names that are kept: all members of a query, and the paths of share links."""

_HARMLESS = {
    "versionid": r"[\w.~%+/:-]{1,1024}",
    "generation": r"\d{1,20}",
    "metageneration": r"\d{1,20}",
    "snapshot": r"[\dTZ:.%+-]{1,40}",
    "partnumber": r"\d{1,5}",
    "alt": "media",
    "dl": "[01]",
    "raw": "1|true",
    "download": "1|true",
}
"""Names in lower case, with the values that they have: of versions (S3, Google, Azure), and of plain downloads."""

# what stands before the `@` is a container (Azure), a namespace (OCI), a revision or a part of a path
_AT_IS_A_LETTER = frozenset(
    {
        "file",
        "local",
        "memory",
        "az",
        "abfs",
        "abfss",
        "adl",
        "wasb",
        "wasbs",
        "oci",
        "hf",
        "zip",
        "tar",
        "libarchive",
        "git",
        "github",
        "dir",
    }
)
# in their URLs a question mark and a hash are letters of a key or a path
_LITERAL = _AT_IS_A_LETTER | {
    "s3",
    "s3a",
    "gs",
    "gcs",
    "oss",
    "ftp",
    "sftp",
    "ssh",
    "scp",
    "smb",
    "hdfs",
    "filecache",
    "simplecache",
    "blockcache",
}
_WITH_USERS = frozenset({"ftp", "sftp", "ssh", "scp", "smb", "hdfs", "webhdfs"})
"""Schemes whose addresses have a user, who is no secret without a password."""

_HTTP = frozenset({"http", "https"})

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*\Z")
_LONGEST_SCHEME = 32
_DEEPEST = 8
"""URLs in one another; what is in these is taken for a query."""
_NEXT_LINK = re.compile(r"::(?=/|[A-Za-z][A-Za-z0-9+.\-]{0,31}(?:://|::))")
_AUTHORITY_END = re.compile(r"[/?#]")
_PATH_END = re.compile(r"[?#]")
_AT = re.compile(r"@|%40")
_MEMBER = re.compile(r"[&;]|%26|%3B", re.IGNORECASE)
_MATRIX = re.compile(r";|%3B", re.IGNORECASE)
_EQUALS = re.compile(r"=|%3D", re.IGNORECASE)
_PORT = re.compile(r"[^:\[\]]*:\d*")
_NAME_TO_TELL = re.compile(r"[A-Za-z][A-Za-z_.\-]{0,39}")

_PART = r"([^/]+)"

SHARE_LINKS: tuple[tuple[str, str, str], ...] = (
    ("dropbox.com", "", rf"/(?:scl/f[io]|sh?|t)/{_PART}(?:/([\w-]{{16,}}))?"),
    ("dropboxusercontent.com", "", rf"/(?:scl/f[io]|sh?|cd/0/(?:get|inline))/{_PART}(?:/([\w-]{{16,}}))?"),
    ("1drv.ms", "", r"/(.+)"),
    ("sharepoint.com", "", r"/:[a-z]:/(.+)"),
    ("api.onedrive.com", "", rf"/shares/{_PART}"),
    ("graph.microsoft.com", "", rf"/shares/{_PART}"),
    ("drive.google.com", "", rf"/(?:d|folders)/{_PART}"),
    ("docs.google.com", "", rf"/(?:d|folders)/{_PART}"),
    ("googleapis.com", "", rf"/drive/v\d/files/{_PART}"),
    ("googleusercontent.com", "", r"/(?:docs/securesc|download/drive|d)/(.+)"),
    ("box.com", "", rf"/(?:s|shared/static)/{_PART}"),
    ("wetransfer.com", "", r"/(.+)"),
    ("we.tl", "", r"/(.+)"),
    ("mega.nz", "", r"/(.+)"),
    ("icloud.com", "", r"/(.+)"),
    ("pcloud.link", "", r"/(.+)"),
    ("telegram.org", "", r"/(?:file/)?(bot[^/]+)"),
    # Oracle's pre-authenticated requests; each realm has a domain of its own
    ("", "/n/", rf"/p/{_PART}(?=/n/[^/]+/b/[^/]+/[ou](?:/|\Z))"),
    # Nextcloud and ownCloud, Seafile: at any host
    ("", "/s/", r"/s/((?=[A-Z0-9]*[a-z])(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{10,})(?=/|\Z)"),
    ("", "dav/", rf"/public\.php/(?:web)?dav/(?:files/)?{_PART}"),
    ("", "/f/", r"/f/([0-9a-f]{20})(?=/|\Z)"),
    ("", "/d/", r"/d/([0-9a-f]{20})(?=/|\Z)"),
    ("", "seafhttp/", rf"/seafhttp/(?:files|f)/{_PART}"),
    # a path that names the secret that follows
    ("", "token", r"(?i:/(?:access_?)?token[/=:])([^/]{8,})"),
    ("", "/sig", r"(?i:/(?:sig|signature)[/=:])([^/]{8,})"),
    ("", "secret", r"(?i:/secret[/=:])([^/]{8,})"),
    ("", "password", r"(?i:/password[/=:])([^/]{8,})"),
    ("", "key", r"(?i:/api_?key[/=:])([^/]{8,})"),
    ("", "jwt", r"(?i:/jwt[/=:])([^/]{8,})"),
)
"""Links whose path is the permission to read: the host with its subdomains (any host if empty),
a text that each such link contains (the host if empty), and the pattern of the path, whose groups are the secret."""

# most URLs are plain: one look tells
_NOT_PLAIN = re.compile(r"[?#;@]|%(?:3[abdf]|40)|::", re.IGNORECASE)
_MARKS = frozenset({host or mark for host, mark, _ in SHARE_LINKS} | {"%"})
"""Every share link has one of these."""


@record
class _Link:
    """One URL of a chain."""

    scheme: str
    """As it is spelt, with `://`; empty for a path or a bare word of a chain."""
    user: str = ""
    """With its `@`."""
    host: str = ""
    path: str = ""
    query: str = ""
    """With its mark."""
    fragment: str = ""
    """The same."""

    @property
    def name(self) -> str:
        return self.scheme[:-3].lower()


def bare(url: str, keep: Collection[str] = ()) -> str:
    """Return the URL without what is not known to be harmless; `keep` names further members of a query.

    In the keys of object stores a question mark is a letter, and they stay as they are.
    """
    if "://" not in url or _NOT_PLAIN.search(url) is None:
        return url
    return "".join(joint + _bare(link, keep) for joint, link in _links(url))


def hidden(url: str) -> str:
    """Return a URL as it may be shown, the same parts hidden."""
    if "://" not in url:
        return _without_members(url)
    if _NOT_PLAIN.search(url) is None and not _may_be_share(url):
        return url
    return "".join(joint + _hidden(link) for joint, link in _links(url))


def is_share_link(url: str) -> bool:
    """Whether the path of a URL is itself the permission to read."""
    return _may_be_share(url) and any(_share_spans(link) for _, link in _links(url))


def _may_be_share(url: str) -> bool:
    lower = url.lower()
    return "://" in url and any(mark in lower for mark in _MARKS)


def dropped_names(url: str, keep: Collection[str] = ()) -> list[str]:
    """Return the names of query members and matrix parameters that `bare` leaves out, as far as they may be told."""
    names = []
    for _, link in _links(url) if "://" in url else ():
        if link.name not in _LITERAL:
            members = [*_MEMBER.split(_split_path(link.path)[1] + link.query), *_MATRIX.split(link.path)]
            pairs = [_pair(member.lstrip("?")) for member in members if not _stays(member.lstrip("?"), keep)]
            names += [name for name, value in pairs if value and _NAME_TO_TELL.fullmatch(name)]
    return list(dict.fromkeys(names))


# What a URL is made of


def _links(url: str) -> Iterator[tuple[str, _Link]]:
    """Yield the URLs of a chain (`zip://a::https://b`), and those that stand in the path of another.

    Each comes with what joins it to the one before.
    """
    start = 0
    for joint in (*_NEXT_LINK.finditer(url), None):
        stop = len(url) if joint is None else joint.start()
        before = url[start - 2 : start] if start else ""
        for nested in _nested(url[start:stop]):
            yield before, nested
            before = ""
        start = stop + 2


def _nested(text: str) -> Iterator[_Link]:
    """Yield a URL, and those that its path ends in (archives of the web, proxies)."""
    for _ in range(_DEEPEST):
        at = text.find("://")
        if at < 0:
            yield _Link("", path=text)
            return
        link = _parsed(text[: at + 3], text[at + 3 :])
        inner = link.path.find("://") if link.name not in _LITERAL else -1
        if inner < 0:
            yield link
            return
        scheme = _SCHEME.search(link.path, max(inner - _LONGEST_SCHEME, 0), inner)
        begin = inner if scheme is None else scheme.start()
        yield replace(link, path=link.path[:begin], query="", fragment="")
        text = link.path[begin:] + link.query + link.fragment
    yield _Link("x://", query=f"?{text}")


def _parsed(scheme: str, rest: str) -> _Link:
    name = scheme[:-3].lower()
    user, host = "", ""
    if name not in _AT_IS_A_LETTER:
        user, host, rest = _split_authority(rest, may_be_spelt_badly=name not in _LITERAL)
    end = _PATH_END.search(rest)
    path, tail = (rest, "") if end is None else (rest[: end.start()], rest[end.start() :])
    query, mark, fragment = tail.partition("#")
    return _Link(scheme, user, host, path, query, mark + fragment)


def _split_authority(rest: str, *, may_be_spelt_badly: bool) -> tuple[str, str, str]:
    """Return user info, host with port, and what follows.

    A password may hold marks that end an authority: what stands for a port is then no number, and all up to
    the last `@` belongs to it.
    """
    end = _AUTHORITY_END.search(rest)
    stop = len(rest) if end is None else end.start()
    if may_be_spelt_badly and not rest.startswith("[") and ":" in rest[:stop] and not _PORT.fullmatch(rest, 0, stop):
        last = max(rest.rfind("@"), rest.rfind("%40"))
        if last >= stop:
            end = _AUTHORITY_END.search(rest, last)
            stop = len(rest) if end is None else end.start()
    split = max((match.end() for match in _AT.finditer(rest, 0, stop)), default=0)
    matrix = _MATRIX.search(rest, split, stop)
    stop = stop if matrix is None else matrix.start()
    return rest[:split], rest[split:stop], rest[stop:]


def _split_path(path: str) -> tuple[str, str]:
    """Return a path, and what follows a question mark that is percent-encoded if that looks like a query."""
    lower = path.lower()
    mark = lower.find("%3f")
    if mark < 0 or mark > max(path.rfind("="), lower.rfind("%3d")):
        return path, ""
    return path[:mark], path[mark + 3 :]


def _pair(member: str) -> tuple[str, str]:
    """Return name and value of a member of a query, the name decoded."""
    name, *value = _EQUALS.split(member, maxsplit=1)
    return unquote(name), value[0] if value else ""


def _stays(member: str, keep: Collection[str]) -> bool:
    """Whether a member of a query is known to be harmless, or is to be kept."""
    if not member or EVERYTHING in keep:
        return True
    name, value = _pair(member)
    usual = _HARMLESS.get(member.partition("=")[0].lower())
    return name in keep or (usual is not None and re.fullmatch(usual, value, re.IGNORECASE) is not None)


def _share_spans(link: _Link) -> list[tuple[int, int]]:
    """Return where a path holds the secret of a share link; all of the path if it does so percent-encoded only."""
    if link.name in _LITERAL or not link.scheme:
        return []
    host = link.host.rpartition(":")[0] or link.host
    host = host.lower().rstrip(".")
    rules = [
        re.compile(path)
        for suffix, _, path in SHARE_LINKS
        if not suffix or host == suffix or host.endswith(f".{suffix}")
    ]
    found = [rule.search(link.path) for rule in rules]
    spans = [match.span(n) for match in found if match is not None for n in range(1, len(match.groups()) + 1)]
    if not spans and "%" in link.path and any(rule.search(unquote(link.path)) for rule in rules):
        spans = [(1, len(link.path))]
    return sorted(span for span in spans if span[0] >= 0)


# What is left of it


def _bare(link: _Link, keep: Collection[str]) -> str:
    if link.name in _LITERAL or not link.scheme:
        return f"{link.scheme}{_user(link)}{link.host}{link.path}{link.query}{link.fragment}"
    path, encoded = _split_path(link.path)
    query = _kept(link.query[1:], keep, "")
    more = _kept(encoded, keep, "")
    path = _segments(path, keep, "") + (f"%3F{more}" if more else "")
    return f"{link.scheme}{_user(link)}{link.host}{path}{'?' if query else ''}{query}"


def _hidden(link: _Link) -> str:
    path, encoded = _split_path(link.path)
    if link.name not in _LITERAL:
        at = 0
        pieces = []
        for start, stop in _share_spans(replace(link, path=path)):
            pieces += [path[at:start], HIDDEN] if start >= at else []
            at = max(at, stop)
        path = _segments("".join(pieces) + path[at:], (), HIDDEN)
    path += f"%3F{_kept(encoded, (), HIDDEN)}" if encoded else ""
    query = f"?{_kept(link.query[1:], (), HIDDEN)}" if link.query else ""
    fragment = link.fragment if link.name in _LITERAL or not link.fragment else f"#{HIDDEN}"
    return f"{link.scheme}{_user(link)}{_host(link)}{path}{query}{fragment}"


def _host(link: _Link) -> str:
    """Return the host with its port; what is no number is a password whose `@` is missing."""
    name, colon, port = link.host.partition(":")
    is_cut = colon and link.name in _HTTP and not link.host.startswith("[")
    if is_cut and port and not port.isdecimal():
        return f"{name}:{HIDDEN}"
    return link.host


def _user(link: _Link) -> str:
    """Return the user info that stays: a name without a password, where addresses have one."""
    return link.user if link.name in _WITH_USERS and ":" not in link.user and "%3" not in link.user else ""


def _kept(query: str, keep: Collection[str], mark: str) -> str:
    """Return the members of a query that stay, and the mark in place of all others."""
    if EVERYTHING in keep:
        return query
    members = _MEMBER.split(query)
    kept = [member for member in members if _stays(member, keep)]
    if len(kept) == len(members):
        return query
    return "&".join([*filter(None, kept), *filter(None, [mark])])


def _segments(path: str, keep: Collection[str], mark: str) -> str:
    """Return a path without matrix parameters (`;name=value`) that do not stay."""
    if EVERYTHING in keep or not _MATRIX.search(path):
        return path
    segments = []
    for segment in path.split("/"):
        name, *parameters = _MATRIX.split(segment)
        kept = [name]
        for parameter in parameters:
            if not _EQUALS.search(parameter) or _stays(parameter, keep):
                kept.append(parameter)
            elif mark and kept[-1] != mark:
                kept.append(mark)
        segments.append(";".join(kept) if kept != [name, *parameters] else segment)
    return "/".join(segments)


# In texts

_USER = r"""(?=[^/?#@]{0,256}:)[^/?#@]{1,256}@"""
"""User info with a password; blanks and quotes in it are not encoded."""

_QUOTE = r"""['"`](?![\s,)\]}:;<>]|\Z)"""
"""A quotation mark that ends nothing."""

_TOKEN = re.compile(rf"""://(?:{_USER})?(?:[^\s"<>`']|{_QUOTE})*""")
_NO_SCHEME = re.compile(rf"(?<![:/])//{_USER}|(?<![\w.~%:/*)\]-])/(?=\S){_USER}")
"""User info where the scheme is missing, or is not next to its slashes.

A path has one slash in place of two.
"""

_PRE_AUTHENTICATED = re.compile(r"(/p/)[^/\s]{8,}(?=/n/)")
"""The secret of an Oracle pre-authenticated request without its URL: a server's answer quotes the path."""

# compiled where a text is met that may have them: re keeps what it compiled, and most commands meet none
_LOOSE = r"((?:[?&]|%3F|%26)[\w.~+%\[\]-]{1,80}?(?:=|%3D))((?:(?!%26)[^\s&'\"<>#])+)"
"""A query without its URL: what a server's answer or a library's message quotes."""

_QUOTED = (
    r"""((?:['"](?:[\w-]{1,40}[_-]key|(?:[\w-]{0,40}[_-])?(?:secret|token|password|passwd|authorization"""
    r"""|cookie|credential|connection_string))['"]\s{0,3}:\s{0,3}[bu]?)(?=['"]))(?:'[^'\n]*'|"[^"\n]*")"""
)
_BEARER = re.compile(r"\b(Bearer|Basic|Authorization:)(\s{1,3})[\w.~+/=:-]{16,}", re.IGNORECASE)


def redacted(text: str) -> str:
    """Return the text with all that `bare` leaves out of URLs hidden, and what headers and options hold of secrets."""
    pieces = []
    done = 0
    for token in _TOKEN.finditer(text):
        scheme = _SCHEME.search(text, max(done, token.start() - _LONGEST_SCHEME), token.start())
        start = token.start() if scheme is None else scheme.start()
        stop = token.start() + len(token[0].rstrip(".,;:)]}"))
        pieces += [_without_members(text[done:start]), hidden(text[start:stop])]
        done = stop
    return "".join(pieces) + _without_members(text[done:])


def _without_members(text: str) -> str:
    """Return a text outside of URLs without the values of queries, of secret options and headers."""
    if "=" in text or "%3" in text:
        text = re.sub(_LOOSE, _loosely_hidden, text, flags=re.IGNORECASE)
    if "'" in text or '"' in text:
        text = re.sub(_QUOTED, rf"\1'{HIDDEN}'", text, flags=re.IGNORECASE)
    if "@" in text and "/" in text:
        text = _NO_SCHEME.sub(f"//{HIDDEN}@", text)
    if "/p/" in text:
        text = _PRE_AUTHENTICATED.sub(rf"\1{HIDDEN}", text)
    return _BEARER.sub(rf"\1\2{HIDDEN}", text)


def _loosely_hidden(match: re.Match[str]) -> str:
    name = _EQUALS.split(re.sub("^(?:[?&]|%3F|%26)", "", match[1], flags=re.IGNORECASE))[0]
    return match[0] if _stays(f"{name}={match[2]}", ()) else f"{match[1]}{HIDDEN}"


def printable(text: str) -> str:
    """Return the text on one line: what is not printable (control, bidirectional, ...) escaped, secrets hidden."""
    shown = redacted(text)
    if shown.isprintable():
        return shown
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode() for char in shown
    )


def record_repr(record: Any) -> str:
    """Return the repr of a dataclass or a named tuple, for its `__repr__`: secrets in its texts and URLs hidden."""
    names = getattr(record, "_fields", None) or [each.name for each in fields(record) if each.repr]
    shown = (f"{name}={_shown(getattr(record, name))}" for name in names)
    return f"{type(record).__qualname__}({', '.join(shown)})"


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return repr(hidden(value))
    if type(value) in {tuple, list}:
        return f"[{', '.join(map(_shown, value))}]"
    return redacted(repr(value))
