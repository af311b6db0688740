"""JPEG 2000's wavelets and component transforms on parts of an image.

May touch numpy only.  Arrays end in (row, column), `origin` is the coordinate of their first column and row:
its parity tells low samples (even) from high ones (odd).  What lies beyond an array's edge is taken as its
mirror image: right at the edges of a tile, and elsewhere wrong no further inwards than the wavelet reaches.
Products and sums of the 9/7 wavelet are carried out in float32 and in the order in which OpenJPEG does, so
that both round alike.
Spec: ITU-T T.800, Annexes F (wavelets) and G (component transforms).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

type Samples = NDArray[Any]

ALPHA, BETA, GAMMA, DELTA = (np.float32(x) for x in (-1.586134342, -0.052980118, 0.882911075, 0.443506852))
LOW = np.float32(1.230174105)
HIGH = np.float32(1.625732422)  # OpenJPEG's 2/K, which takes the place of the subband gains


def synthesis(samples: Samples, origin: tuple[int, int], *, reversible: bool) -> Samples:
    """Turn interleaved subbands into the samples of their resolution, in place: rows, then columns."""
    if not samples.size:
        return samples
    inverse = _inverse53 if reversible else _inverse97
    inverse(samples, origin[0] & 1)
    inverse(samples.swapaxes(-1, -2), origin[1] & 1)
    return samples


def analysis53(samples: Samples, origin: tuple[int, int]) -> Samples:
    """Turn samples into interleaved subbands, in place: what `synthesis` of the 5/3 wavelet undoes."""
    _forward53(samples.swapaxes(-1, -2), origin[1] & 1)
    _forward53(samples, origin[0] & 1)
    return samples


def _sums(w: Samples, start: int) -> Samples:
    """Return the sum of both neighbours of each second column from `start` on."""
    other, first = w[..., 1 - start :: 2], 1 - start
    sums = np.empty_like(w[..., start::2])  # in the memory order of `w`, which may be transposed
    inner = first + other.shape[-1] - 1
    np.add(other[..., :-1], other[..., 1:], out=sums[..., first:inner])
    if first:
        sums[..., 0] = 2 * other[..., 0]
    if inner < sums.shape[-1]:
        sums[..., -1] = 2 * other[..., -1]
    return sums


def _inverse53(w: Samples, odd: int) -> None:
    """Undo the 5/3 wavelet along rows; `odd` is the parity of the first column's coordinate."""
    if w.shape[-1] == 1:
        if odd:
            w[...] = np.trunc(w / 2).astype(w.dtype)
        return
    w[..., odd::2] -= (_sums(w, odd) + 2) >> 2
    w[..., 1 - odd :: 2] += _sums(w, 1 - odd) >> 1


def _forward53(w: Samples, odd: int) -> None:
    if w.shape[-1] == 1:
        w[...] <<= odd
        return
    w[..., 1 - odd :: 2] -= _sums(w, 1 - odd) >> 1
    w[..., odd::2] += (_sums(w, odd) + 2) >> 2


def _inverse97(w: Samples, odd: int) -> None:
    if w.shape[-1] == 1:
        return
    low, high = w[..., odd::2], w[..., 1 - odd :: 2]
    low *= LOW
    high *= HIGH
    low -= _sums(w, odd) * DELTA
    high -= _sums(w, 1 - odd) * GAMMA
    low -= _sums(w, odd) * BETA
    high -= _sums(w, 1 - odd) * ALPHA


def inverse_components(planes: list[Samples], *, reversible: bool) -> list[Samples]:
    """Undo the component transform of the first three planes."""
    y, u, v = planes[:3]
    if reversible:
        green = y - ((u + v) >> 2)
        return [v + green, green, u + green, *planes[3:]]
    red = y + v * np.float32(1.402)
    green = y - (u * np.float32(0.34413) + v * np.float32(0.71414))
    return [red, green, y + u * np.float32(1.772), *planes[3:]]
