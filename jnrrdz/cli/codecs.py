"""`jnrrdz codecs`: which codecs, libraries and compressions this environment has, in general and for a manifest.

A decoder counts as there if the library that would be called says so, not because its name is known.
"""

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution, version
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import Exit

from jnrrdz.cli.console import FAILURE, Console, codec, console_of, counted, echo_json, say, table
from jnrrdz.cli.options import Reach, access_options, console_options, json_option
from jnrrdz.errors import JnrrdzError, UnsupportedError

if TYPE_CHECKING:
    from jnrrdz.commands.facts import Facts
    from jnrrdz.formats import Format

EPILOG = """\b
Examples:
  jnrrdz codecs
  jnrrdz codecs --check scene.json && echo readable here
"""

type Json = dict[str, Any]

LIBRARIES = {
    "zarr": ("arrays, and the codecs of the Zarr specification", "zarr"),
    "tifffile": ("tiles and strips of TIFF", "tifffile"),
    "imagecodecs": ("the decoders that tifffile calls, and libtiff", "imagecodecs"),
    "numcodecs": ("the codecs numcodecs.*", "numcodecs"),
    "glymur": ("JPEG 2000 whose components differ, with libopenjp2", "jnrrdz[openjp2]"),
    "cast-value-rs": ("the codec cast_value of physical values", "cast-value-rs"),
    "s3fs": ("sources and manifests at s3://", "jnrrdz[s3]"),
    "aiohttp": ("sources and manifests at https://", "aiohttp"),
    "pyarrow": ("manifests in Parquet, and stac-geoparquet", "jnrrdz[parquet]"),
    "virtualizarr": ("the parser jnrrdz.Parser", "jnrrdz[virtualizarr]"),
    "icechunk": ("manifests in Icechunk repositories", "jnrrdz[icechunk]"),
    "dask": ("chunked reading in parallel", "jnrrdz[dask]"),
}
"""What each is for, and what pip installs it by."""

NUMCODECS = "numcodecs."


@click.command(epilog=EPILOG)
@click.option("--check", metavar="REFS", type=click.Path(), help="Say of each codec of a manifest if it can be read.")
@json_option
@access_options()
@console_options
@console_of
def codecs(console: Console, /, check: str | None, *, reach: Reach) -> None:
    """Show which codecs and compressions of TIFF and NITF can be read here, and what would add more.

    With --check the exit code is 1 if any codec of the manifest cannot be read.
    """
    if check is None:
        available = survey()
        if console.as_json:
            echo_json(available)
            return
        for line in _survey_lines(available):
            say(line)
        return
    from jnrrdz.commands.facts import Facts, opened  # noqa: PLC0415  see the package

    check = reach.source(check)
    with console.warnings_told(check):
        checked = verdicts(Facts(opened(check, reach.access(check)).manifest))
    rows = [{"codec": v.entry, "arrays": v.arrays, "readable": v.reason is None, "reason": v.reason} for v in checked]
    if console.as_json:
        console.tell_json(check, {"codecs": rows})
    else:
        for line in _check_lines(rows):
            say(line)
    if not all(row["readable"] for row in rows):
        raise Exit(FAILURE)


def _check_lines(rows: Sequence[Json]) -> list[str]:
    return table(
        (
            "yes" if row["readable"] else "no",
            codec(row["codec"]),
            counted(len(row["arrays"]), "array"),
            row["reason"] or "",
        )
        for row in rows
    )


def _survey_lines(available: Json) -> Iterator[str]:
    yield f"jnrrdz {available['jnrrdz']}"
    yield ""
    codecs = [(entry["name"], "yes" if entry["readable"] else "no") for entry in available["codecs"]]
    yield from table([("codec", "read"), *codecs])
    yield ""
    libraries = [("library", "version", "for")]
    for library in available["libraries"]:
        missing = f"; {library['install']}" if library["version"] is None else ""
        libraries.append((library["name"], library["version"] or "missing", library["purpose"] + missing))
    yield from table(libraries)
    yield ""
    yield from table([("format", "names"), *((fmt["name"], " ".join(fmt["endings"])) for fmt in available["formats"])])
    for fmt in available["formats"]:
        schemes = [(f"{fmt['name']} compression", "read", "by")]
        for scheme in available.get(f"{fmt['name'].lower()}_compressions", ()):
            number = f" ({scheme['number']})" if "number" in scheme else ""
            meaning = f": {scheme['meaning']}" if "meaning" in scheme else ""
            state = "yes" if scheme["readable"] else "no"
            schemes.append((f"{scheme['name']}{number}{meaning}", state, scheme["reason"] or scheme["decoder"]))
        if len(schemes) > 1:
            yield ""
            yield from table(schemes)


# What the environment has


@dataclass
class Verdict:
    """Whether one codec of a manifest can be read here."""

    entry: Json
    arrays: list[str] = field(default_factory=list)
    reason: str | None = None
    """Why it cannot; None if it can."""


def survey() -> Json:
    """Return what can be read here, and by what."""
    from jnrrdz.codecs.osml import UNREAD  # noqa: PLC0415  see the package
    from jnrrdz.formats import FORMATS  # noqa: PLC0415  the same

    points = distribution("jnrrdz").entry_points.select(group="zarr.codecs")
    names = sorted(
        {point.name for point in points}.union(*(fmt.codecs for fmt in FORMATS)), key=lambda name: ("://" in name, name)
    )
    members = ("name", "endings", "media_types", "options")
    return {
        "jnrrdz": version("jnrrdz"),
        "codecs": [{"name": name, "readable": name not in UNREAD} for name in names],
        "libraries": _libraries(),
        "formats": [{member: getattr(fmt, member) for member in members} for fmt in FORMATS],
    } | {f"{fmt.name.lower()}_compressions": _compressions(fmt) for fmt in FORMATS if fmt.decoders}


def _libraries() -> list[Json]:
    """Return the versions of what is installed, and of the library that glymur binds, which pip does not install."""
    from jnrrdz.formats.jpeg2000 import decode as openjp2  # noqa: PLC0415  see the package

    libraries: list[Json] = []
    for name, (purpose, package) in LIBRARIES.items():
        try:
            installed: str | None = version(name)
        except PackageNotFoundError:
            installed = None
        install = f"pip install '{package}'"
        libraries.append({"name": name, "version": installed, "purpose": purpose, "install": install})
    native = None
    with suppress(UnsupportedError):
        native = openjp2.binding().version()
    purpose = "JPEG 2000 whose components differ in precision, sign or size"
    return [*libraries, {"name": "libopenjp2", "version": native, "purpose": purpose, "install": openjp2.INSTALL}]


def _compressions(fmt: "Format") -> list[Json]:
    """Return the ways to compress that a format knows, with what decodes each here."""
    return [
        {
            "name": decoder.name,
            **({} if decoder.number is None else {"number": decoder.number}),
            **({} if decoder.meaning is None else {"meaning": decoder.meaning}),
            "readable": decoder.reason is None,
            "decoder": decoder.by,
            "reason": decoder.reason,
        }
        for decoder in fmt.call("decoders")
    ]


def verdicts(facts: "Facts") -> list[Verdict]:
    """Return for every codec of a manifest, in each configuration, whether it can be read."""
    by_codec: dict[str, Verdict] = {}
    for node in facts.nodes.values():
        if node.refs is None:
            continue
        for entry in node.codecs:
            verdict = by_codec.setdefault(repr(_essence(entry)), Verdict(_essence(entry)))
            verdict.arrays.append(node.path)
            verdict.reason = verdict.reason or unreadable(entry)
    return list(by_codec.values())


def _essence(entry: Json) -> Json:
    """Return a codec without what differs from level to level of one image."""
    from jnrrdz.core.codecs import JPEG2000, JPEG2000_WINDOW  # noqa: PLC0415  see the package

    configuration = entry.get("configuration") or {}
    if entry["name"] in {JPEG2000, JPEG2000_WINDOW}:
        return {"name": entry["name"]}
    if entry["name"].rpartition("/")[2] != "tiff-tile":
        return {"name": entry["name"], **({"configuration": configuration} if configuration else {})}
    kept = {key: configuration[key] for key in ("compression", "predictor") if key in configuration}
    return {"name": entry["name"], "configuration": kept}


def unreadable(entry: Json) -> str | None:
    """Return why a codec of a manifest cannot be read here, None if it can."""
    import numcodecs  # noqa: PLC0415  see the package
    import zarr.registry  # noqa: PLC0415  the same
    from numcodecs.errors import UnknownCodecError  # noqa: PLC0415  the same

    from jnrrdz import codecs  # noqa: PLC0415  the same
    from jnrrdz.core.codec_table import OWN  # noqa: PLC0415  the same
    from jnrrdz.core.codecs import CAST_VALUE  # noqa: PLC0415  the same

    name, configuration = entry["name"], entry.get("configuration") or {}
    try:
        codec_class: Any = getattr(codecs, OWN[name]) if name in OWN else zarr.registry.get_codec_class(name)
    except (LookupError, ValueError):
        return f"no package that is installed registers the codec {name!r}"
    except ImportError as error:
        return f"the package that registers it does not import: {error}"
    try:
        codec_class.from_dict({"name": name, "configuration": configuration})
        if name.startswith(NUMCODECS):  # zarr's wrapper would find out at the first chunk
            numcodecs.get_codec({"id": name.removeprefix(NUMCODECS), **configuration})
    except UnknownCodecError:
        return f"numcodecs has no {name.removeprefix(NUMCODECS)}; a package that it needs is missing"
    except (JnrrdzError, ValueError, TypeError, KeyError, ImportError, NotImplementedError) as error:
        return f"its configuration is refused: {error}"
    if (
        name == CAST_VALUE
        and codec_class.__module__.startswith("zarr.")
        and importlib.util.find_spec("cast_value_rs") is None
    ):
        # zarr's class would find out at the first chunk
        return "cast-value-rs is missing: pip install cast-value-rs"
    return _decoder_reason(name, configuration)


def _decoder_reason(name: str, configuration: Json) -> str | None:
    """Return why the library that a codec calls cannot read a configuration, None if it can."""
    from jnrrdz.codecs.chains import RULE  # noqa: PLC0415  see the package
    from jnrrdz.core.codec_table import CODECS  # noqa: PLC0415  the same
    from jnrrdz.core.codecs import JBP_JPEG, JPEG2000, Jpeg2000Config  # noqa: PLC0415  the same
    from jnrrdz.formats.jpeg2000.decode import missing_library  # noqa: PLC0415  the same
    from jnrrdz.formats.nitf import decode as nitf_decode  # noqa: PLC0415  the same
    from jnrrdz.formats.tiff import decode as tiff_decode  # noqa: PLC0415  the same
    from jnrrdz.formats.tiff.tags import Compression, name_of  # noqa: PLC0415  the same

    if name not in CODECS:
        return f"jnrrdz reads codecs of a list only: {RULE}"
    if name == JPEG2000:
        return missing_library(Jpeg2000Config.from_json(configuration))
    if name == JBP_JPEG:
        return nitf_decode.decoder_of("JPEG8")[1]
    if name.rpartition("/")[2] != "tiff-tile":
        return None
    scheme = configuration.get("compression", int(Compression.NONE))
    if scheme not in Compression:
        return f"no decoder is known for compression {scheme}"
    reason = tiff_decode.decoder_of(Compression(scheme))[1]
    return None if reason is None else f"{name_of(Compression, scheme)}: {reason}"
