"""Data types and fill values as Zarr v3 documents spell them.

May touch numpy and errors only.  Follows
https://zarr-specs.readthedocs.io/en/latest/v3/data-types/index.html; `_FillValue`, an attribute, is
spelt as xarray's Zarr backend reads it, which differs.
"""

import base64
import math
import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from numbers import Complex, Integral, Real
from typing import Any, cast

import numpy as np

from jnrrdz.errors import MalformedError, UnrepresentableError

_INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
DATA_TYPES = frozenset(["bool", *_INTEGERS, "float16", "float32", "float64", "complex64", "complex128"])


@lru_cache(64)
def data_type(dtype: np.dtype[Any]) -> str:
    """Return Zarr's name for a numpy type; the byte order is the codecs' business."""
    if dtype.name not in DATA_TYPES:
        raise UnrepresentableError(f"Zarr v3 has no core data type for numpy's {dtype}", field="data_type")
    return dtype.name


def spelt(number: float) -> float | str:
    """Return a number as strict JSON can hold it: what is not finite as text."""
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else ("Infinity" if number > 0 else "-Infinity")


def _refused_fill(value: Any, dtype: np.dtype[Any]) -> UnrepresentableError:
    return UnrepresentableError(f"{value!r} is no value of type {dtype.name}", field="fill_value")


def _encode_bool(value: Any, dtype: np.dtype[Any]) -> bool:
    if not isinstance(value, bool | np.bool_ | Integral) or value not in (0, 1):
        raise _refused_fill(value, dtype)
    return bool(value)


def _encode_int(value: Any, dtype: np.dtype[Any]) -> int:
    limits = np.iinfo(dtype)
    whole = isinstance(value, Integral) or (isinstance(value, Real) and float(value).is_integer())
    if not whole or not limits.min <= int(value) <= limits.max:
        raise _refused_fill(value, dtype)
    return int(value)


def _encode_float(value: Any, dtype: np.dtype[Any]) -> float | str:
    if not isinstance(value, Real):
        raise _refused_fill(value, dtype)
    with np.errstate(over="ignore"):
        typed = np.asarray(_as_float(value, dtype)).astype(dtype.newbyteorder(">"))
    if np.isnan(typed):
        # another NaN than the quiet positive one has to be spelt by its bits
        same = typed.tobytes() == np.array(math.nan, typed.dtype).tobytes()
        return "NaN" if same else f"0x{typed.tobytes().hex()}"
    if np.isinf(typed) and not math.isinf(value):
        raise _refused_fill(value, dtype)
    return spelt(float(typed))


def _as_float(value: Any, dtype: np.dtype[Any]) -> float:
    try:
        return float(value)
    except OverflowError:
        raise _refused_fill(value, dtype) from None


def _encode_complex(value: Any, dtype: np.dtype[Any]) -> list[float | str]:
    if not isinstance(value, Complex):
        raise _refused_fill(value, dtype)
    part = np.dtype(f"f{dtype.itemsize // 2}")
    return [_encode_float(value.real, part), _encode_float(value.imag, part)]


_ENCODE: Mapping[str, Callable[[Any, np.dtype[Any]], Any]] = {
    "b": _encode_bool,
    "i": _encode_int,
    "u": _encode_int,
    "f": _encode_float,
    "c": _encode_complex,
}


def encode_fill(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a fill value as JSON; a value that the type cannot hold is an error, rounding is not."""
    return _ENCODE[np.dtype(data_type(dtype)).kind](value, dtype)


def decode_fill(value: Any, dtype: np.dtype[Any]) -> np.generic:
    """Return the numpy scalar that a document's fill value stands for."""
    try:
        if dtype.kind == "c":
            real, imag = (decode_fill(part, np.dtype(f"f{dtype.itemsize // 2}")) for part in value)
            scalar: Any = dtype.type  # numpy's stubs know no call of it with a complex number
            return cast("np.generic", scalar(complex(float(real), float(imag))))
        if isinstance(value, str) and dtype.kind == "f":
            return _decode_float(value, dtype)
        return dtype.type(encode_fill(value, dtype))  # type: ignore[no-any-return]
    except (TypeError, ValueError, UnrepresentableError):
        raise MalformedError(f"{value!r} is no {dtype.name}", field="fill_value") from None


def _decode_float(text: str, dtype: np.dtype[Any]) -> np.generic:
    if text.startswith("0x"):
        (bits,) = np.frombuffer(bytes.fromhex(text[2:]), dtype.newbyteorder(">"))
        return dtype.type(bits)  # type: ignore[no-any-return]
    if text not in ("NaN", "Infinity", "-Infinity"):
        raise ValueError(text)
    return dtype.type(float(text))  # type: ignore[no-any-return]


def xarray_fill(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return `_FillValue` as xarray reads it from Zarr v3: base64 of a little-endian double for floats."""
    if dtype.kind == "f" and isinstance(value, Real):
        return base64.b64encode(struct.pack("<d", float(value))).decode("ascii")
    if dtype.kind == "c" and isinstance(value, Complex):
        return [xarray_fill(part, np.dtype("f8")) for part in (value.real, value.imag)]
    if dtype.kind in "iu" and isinstance(value, Real):
        return _encode_int(value, dtype)
    return value
