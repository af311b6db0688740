"""Which codecs, libraries and compressions this environment has, in general and for a manifest: `survey`, `verdicts`.

A decoder counts as there if the library that would be called says so, not because its name is known.
"""

import importlib.util
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numcodecs
import zarr.registry
from numcodecs.errors import UnknownCodecError

from jnrrdz.codecs.chains import rule
from jnrrdz.commands.facts import Facts, Json
from jnrrdz.core.codec_table import find, own_records
from jnrrdz.core.codecs import CAST_VALUE
from jnrrdz.core.configuration import CodecRecord
from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.formats import FORMATS, Format
from jnrrdz.formats.jpeg2000 import openjpeg as openjp2
from jnrrdz.records import resolved

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


@dataclass
class CodecVerdict:
    """Whether one codec of a manifest can be read here."""

    entry: Json
    arrays: list[str] = field(default_factory=list)
    reason: str | None = None
    """Why it cannot; None if it can."""


def survey() -> Json:
    """Return what can be read here, and by what."""
    own = own_records()
    names = sorted(own, key=lambda name: ("://" in name, name))
    members = ("name", "endings", "media_types", "options")
    return {
        "jnrrdz": version("jnrrdz"),
        "codecs": [{"name": name, "readable": own[name].can_decode} for name in names],
        "libraries": _libraries(),
        "formats": [{member: getattr(fmt, member) for member in members} for fmt in FORMATS],
    } | {f"{fmt.name.lower()}_compressions": _compressions(fmt) for fmt in FORMATS if fmt.decoders}


def _libraries() -> list[Json]:
    """Return the versions of what is installed, and of the library that glymur binds, which pip does not install."""
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


def _compressions(fmt: Format) -> list[Json]:
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


def verdicts(facts: Facts) -> list[CodecVerdict]:
    """Return for every codec of a manifest, in each configuration, whether it can be read."""
    by_codec: dict[str, CodecVerdict] = {}
    for node in facts.nodes.values():
        if not node.is_array:
            continue
        for entry in [codec.to_json() for codec in node.codecs]:
            verdict = by_codec.setdefault(repr(_essence(entry)), CodecVerdict(_essence(entry)))
            verdict.arrays.append(node.path)
            verdict.reason = verdict.reason or unreadable(entry)
    return list(by_codec.values())


def _essence(entry: Json) -> Json:
    """Return a codec without what differs from level to level of one image."""
    configuration = entry.get("configuration") or {}
    record = find(entry["name"])
    distinctive = None if record is None else record.distinctive
    if distinctive is not None:
        configuration = {name: value for name, value in configuration.items() if name in distinctive}
    return {"name": entry["name"], **({"configuration": configuration} if configuration else {})}


def unreadable(entry: Json) -> str | None:
    """Return why a codec of a manifest cannot be read here, None if it can."""
    name, configuration = entry["name"], entry.get("configuration") or {}
    record = find(name)
    try:
        codec_class: Any
        if record is None or record.codec_class is None:
            codec_class = zarr.registry.get_codec_class(name)
        else:
            codec_class = resolved(record.codec_class)
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
    return _lack(record, configuration)


def _lack(record: CodecRecord | None, configuration: Json) -> str | None:
    """Return why the library that a codec calls cannot read a configuration, None if it can."""
    if record is None:
        return f"jnrrdz reads codecs of a list only: {rule()}"
    return None if record.lack is None else resolved(record.lack)(configuration)
