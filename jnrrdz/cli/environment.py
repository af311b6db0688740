"""Which ways of a NITF to compress an image this environment has decoders for.

May touch imagecodecs, and what looks for libopenjp2.  A decoder counts as there if the library that
would be called says so, not because its name is known.

Which codecs, libraries and compressions of TIFF and NITF this environment has.

May touch the codecs, zarr's registry, imagecodecs and installed packages' metadata.  A decoder counts as
there if the library that would be called says so, not because its name is known.
"""

import importlib.util
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution, version
from typing import Any, NamedTuple

import imagecodecs
import numcodecs  # type: ignore[import-untyped]
import zarr.registry
from numcodecs.errors import UnknownCodecError  # type: ignore[import-untyped]

from jnrrdz.cli.facts import Facts
from jnrrdz.codecs.osml import UNREAD
from jnrrdz.core.codecs import CAST_VALUE, JPEG, JPEG2000, JPEG2000_WINDOW, Jpeg2000Config
from jnrrdz.errors import JnrrdzError, UnsupportedError
from jnrrdz.formats.jpeg2000 import decode as openjp2
from jnrrdz.formats.jpeg2000.decode import missing_library
from jnrrdz.formats.tiff.decode import LIBTIFF_ONLY
from jnrrdz.formats.tiff.tags import Compression, name_of

type Json = dict[str, Any]

UNKNOWN = "no decoder is known"
UPGRADE = "pip install -U imagecodecs"


class Scheme(NamedTuple):
    """What one value of IC, or several alike, means, and what decodes it."""

    name: str
    meaning: str
    decoder: str | None
    """The decoder of imagecodecs, empty for numpy, None where nobody here has one."""


SCHEMES = (
    Scheme("NC, NM", "not compressed", ""),
    Scheme("NC, NM packed", "samples that are no whole bytes", "PACKINTS"),
    Scheme("C1, M1", "facsimile (CCITT T.4)", "CCITTFAX3"),
    Scheme("C3, M3, I1", "JPEG", "JPEG8"),
    Scheme("C4, M4", "vector quantisation", ""),
    Scheme("C5, M5", "lossless JPEG", "LJPEG"),
    Scheme("C8, M8", "JPEG 2000", "JPEG2K"),
    Scheme("CD, MD", "JPEG 2000 with the HT coder", "JPEG2K"),
    Scheme("C6, M6", "correlated multicomponent compression", None),
    Scheme("C7, M7", "SAR complex compression", None),
)
"""The values of IC, in the standard's order."""

MIXED = "C8, M8, CD, MD mixed"


def nitf_compressions() -> Iterator[Json]:
    """Yield what each value of IC needs, and whether it is there."""
    for scheme in SCHEMES:
        decoder, reason = _decoder(scheme.decoder)
        yield _row(scheme.name, scheme.meaning, decoder, reason)
    yield _mixed()


def _row(name: str, meaning: str, decoder: str | None, reason: str | None) -> Json:
    return {"name": name, "meaning": meaning, "readable": reason is None, "decoder": decoder, "reason": reason}


def _decoder(name: str | None) -> tuple[str | None, str | None]:
    """Return what decodes, and why it cannot (None if it can)."""
    if name is None:
        return None, UNKNOWN
    if not name:
        return "numpy", None
    if getattr(imagecodecs, name).available:
        return f"imagecodecs {name}", None
    return None, f"this build of imagecodecs has no {name}; one that has it: {UPGRADE}"


def _mixed() -> Json:
    """Return whether components that differ can be read: libopenjp2 does that, which pip does not install."""
    reason: str | None = openjp2.INSTALL
    with suppress(UnsupportedError):
        openjp2.binding()
        reason = None
    meaning = "JPEG 2000 whose components differ in precision, sign or size"
    return _row(MIXED, meaning, None if reason else "libopenjp2 (glymur)", reason)


def jpeg_reason(name: str) -> str | None:
    """Return why the codec of JPEG blocks cannot decode here, None if it can or is another codec."""
    return _decoder("JPEG8")[1] if name == JPEG else None


DECODERS = {
    Compression.CCITT_RLE: "CCITTRLE",
    Compression.CCITT_T4: "CCITTFAX3",
    Compression.CCITT_T6: "CCITTFAX4",
    Compression.LZW: "LZW",
    Compression.OLD_JPEG: "JPEG8",
    Compression.JPEG: "JPEG8",
    Compression.ALT_JPEG: "JPEG8",
    Compression.JPEG_LOSSY: "JPEG8",
    Compression.DEFLATE: "DEFLATE",
    Compression.PACKBITS: "PACKBITS",
    Compression.DEFLATE_OLD: "DEFLATE",
    Compression.APERIO_JP2000_YCBC: "JPEG2K",
    Compression.JPEG2000_LOSSY: "JPEG2K",
    Compression.APERIO_JP2000_RGB: "JPEG2K",
    Compression.JPEG2000: "JPEG2K",
    Compression.LERC: "LERC",
    Compression.LZMA: "LZMA",
    Compression.ZSTD_OLD: "ZSTD",
    Compression.WEBP_OLD: "WEBP",
    Compression.PNG: "PNG",
    Compression.JPEGXR: "JPEGXR",
    Compression.JPEGXR_NDPI: "JPEGXR",
    Compression.JETRAW: "JETRAW",
    Compression.ZSTD: "ZSTD",
    Compression.WEBP: "WEBP",
    Compression.JPEGXL: "JPEGXL",
    Compression.PIXTIFF: "DEFLATE",
    Compression.JPEGXL_DNG: "JPEGXL",
}
"""The decoder of imagecodecs that tifffile calls for a scheme."""

LIBRARIES = {
    "zarr": ("arrays, and the codecs of the Zarr specification", "zarr"),
    "tifffile": ("tiles and strips of TIFF", "tifffile"),
    "imagecodecs": ("the decoders that tifffile calls, and libtiff", "imagecodecs"),
    "numcodecs": ("the codecs numcodecs.*", "numcodecs"),
    "glymur": ("JPEG 2000 whose components differ, with libopenjp2", "glymur"),
    "cast-value-rs": ("the codec cast_value of physical values", "cast-value-rs"),
    "s3fs": ("sources and manifests at s3://", "s3fs"),
    "aiohttp": ("sources and manifests at https://", "aiohttp"),
    "icechunk": ("manifests in Icechunk repositories", "jnrrdz[icechunk]"),
    "dask": ("chunked reading in parallel", "jnrrdz[dask]"),
}
"""What each is for, and what pip installs it by."""

NUMCODECS = "numcodecs."


@dataclass
class Verdict:
    """Whether one codec of a manifest can be read here."""

    entry: Json
    arrays: list[str] = field(default_factory=list)
    reason: str | None = None
    """Why it cannot; None if it can."""


def survey() -> Json:
    """Return what can be read here, and by what."""
    points = distribution("jnrrdz").entry_points.select(group="zarr.codecs")
    names = sorted({point.name for point in points}, key=lambda name: ("://" in name, name))
    return {
        "jnrrdz": version("jnrrdz"),
        "codecs": [{"name": name, "readable": name not in UNREAD} for name in names],
        "libraries": [*(_library(name) for name in LIBRARIES), _openjp2()],
        "tiff_compressions": list(_compressions()),
        "nitf_compressions": list(nitf_compressions()),
    }


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _library(name: str) -> Json:
    purpose, package = LIBRARIES[name]
    try:
        found: str | None = version(name)
    except PackageNotFoundError:
        found = None
    return {"name": name, "version": found, "purpose": purpose, "install": f"pip install '{package}'"}


def _openjp2() -> Json:
    """Return whether glymur finds the library that it binds, which pip does not install."""
    found = None
    with suppress(UnsupportedError):
        found = openjp2.binding().version()
    purpose = "JPEG 2000 whose components differ in precision, sign or size"
    return {"name": "libopenjp2", "version": found, "purpose": purpose, "install": openjp2.INSTALL}


def _compressions() -> Iterator[Json]:
    for scheme in Compression:
        decoder, reason = decoder_of(scheme)
        yield {
            "name": scheme.name,
            "number": int(scheme),
            "readable": reason is None,
            "decoder": decoder,
            "reason": reason,
        }


def decoder_of(scheme: Compression) -> tuple[str | None, str | None]:
    """Return what decodes a TIFF compression, and why it cannot be decoded (None if it can)."""
    if scheme == Compression.NONE:
        return "numpy", None
    name = "TIFF" if scheme in LIBTIFF_ONLY else DECODERS.get(scheme)
    if name is None:
        return None, "no decoder is known"
    if not getattr(imagecodecs, name).available:
        return None, f"this build of imagecodecs has no {name}; one that has it is needed"
    return "libtiff (imagecodecs)" if name == "TIFF" else f"imagecodecs {name}", None


def verdicts(facts: Facts) -> list[Verdict]:
    """Return for every codec of a manifest, in each configuration, whether it can be read."""
    found: dict[str, Verdict] = {}
    for node in facts.nodes.values():
        if node.refs is None:
            continue
        for entry in node.codecs:
            verdict = found.setdefault(repr(_essence(entry)), Verdict(_essence(entry)))
            verdict.arrays.append(node.path)
            verdict.reason = verdict.reason or unreadable(entry)
    return list(found.values())


def _essence(entry: Json) -> Json:
    """Return a codec without what differs from level to level of one image."""
    configuration = entry.get("configuration") or {}
    if entry["name"] in {JPEG2000, JPEG2000_WINDOW}:
        return {"name": entry["name"]}
    if entry["name"].rpartition("/")[2] != "tiff-tile":
        return {"name": entry["name"], **({"configuration": configuration} if configuration else {})}
    kept = {key: configuration[key] for key in ("compression", "predictor") if key in configuration}
    return {"name": entry["name"], "configuration": kept}


def unreadable(entry: Json) -> str | None:
    """Return why a codec of a manifest cannot be read here, None if it can."""
    name, configuration = entry["name"], entry.get("configuration") or {}
    try:
        found = zarr.registry.get_codec_class(name)
    except (LookupError, ValueError):
        return f"no package that is installed registers the codec {name!r}"
    except ImportError as error:
        return f"the package that registers it does not import: {error}"
    try:
        found.from_dict({"name": name, "configuration": configuration})
        if name.startswith(NUMCODECS):  # zarr's wrapper would find out at the first chunk
            numcodecs.get_codec({"id": name.removeprefix(NUMCODECS), **configuration})
    except UnknownCodecError:
        return f"numcodecs has no {name.removeprefix(NUMCODECS)}; a package that it needs is missing"
    except (JnrrdzError, ValueError, TypeError, KeyError, ImportError, NotImplementedError) as error:
        return f"its configuration is refused: {error}"
    if name == CAST_VALUE and found.__module__.startswith("zarr.") and not _has("cast_value_rs"):
        # zarr's class would find out at the first chunk
        return "cast-value-rs is missing: pip install cast-value-rs"
    return _decoder_reason(name, configuration)


def _decoder_reason(name: str, configuration: Json) -> str | None:
    """Return why the library that a codec calls cannot read a configuration, None if it can."""
    if name == JPEG2000:
        return missing_library(Jpeg2000Config.from_json(configuration))
    return _tiff_reason(configuration) if name.rpartition("/")[2] == "tiff-tile" else jpeg_reason(name)


def _tiff_reason(configuration: Json) -> str | None:
    scheme = configuration.get("compression", int(Compression.NONE))
    if scheme not in Compression:
        return f"no decoder is known for compression {scheme}"
    reason = decoder_of(Compression(scheme))[1]
    return None if reason is None else f"{name_of(Compression, scheme)}: {reason}"
