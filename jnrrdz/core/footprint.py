"""The ground that an image covers, as GeoJSON in degrees of WGS 84.

An image's edges are curves there: they are looked at in many points, of which those stay that a straight line between
the others would miss by half a pixel.  What crosses the antimeridian is cut there (RFC 7946, section 3.1.9), what
covers a pole reaches up to it, and longitudes of such bounds are those of section 5.2.
Control points and sensor models (RPC00B, NGA STDI-0002) give positions at a first approximation of the ground.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jnrrdz.core.crs import EDGE, to_degrees
from jnrrdz.core.georeference import Place

type Line = NDArray[np.float64]
"""Longitudes and latitudes, a point in each row."""

type Json = Mapping[str, Any]

DIGITS = 7
"""Of degrees, a centimetre: more say nothing of any image."""

TURN, POLE = 360.0, 90.0
SEGMENTS = tuple(count for count in range(1, EDGE) if (EDGE - 1) % count == 0)
"""Into how many equal parts an edge can be divided so that the points between them are points looked at."""

QUADRATIC = 10
"""Control points from which on a surface of second order is laid through them."""

CORNERS = 4
ROUNDS = 30
"""Steps in which a sensor model is inverted; most take five."""


@dataclass(frozen=True)
class Footprint:
    """Where an image lies on the earth."""

    geometry: dict[str, Any]
    """A GeoJSON polygon, or several where one crosses the antimeridian."""

    bbox: list[float]
    """West, south, east, north; across the antimeridian the west is larger than the east."""


def footprint(place: Place) -> Footprint | None:
    """Return the ground of an image; None where its place does not state it."""
    rows, columns = place.shape
    steps = np.linspace(0.0, 1.0, EDGE)[:-1]
    # round the image, from the upper left corner by the lower left one
    column = np.concatenate([0 * steps, steps, 0 * steps + 1, 1 - steps]) * columns
    row = np.concatenate([steps, 0 * steps + 1, 1 - steps, 0 * steps]) * rows
    text = "" if place.crs is None else place.crs.text
    points = place.control_points
    line = None
    if place.affine is not None:
        a, b, c, d, e, f = place.affine
        line = to_degrees(text, a * column + b * row + c, d * column + e * row + f)
    elif text and (fitted := _fitted(points, column, row)) is not None:
        line = to_degrees(text, *fitted)
    elif not points and place.rpc:
        line = _modelled(place.rpc, column, row)
    if line is None or not np.isfinite(line).all():
        return None
    return outlined(line, place.shape)


def outlined(line: Line, shape: tuple[int, int]) -> Footprint | None:
    """Return the ground within the edges of an image, each of them in `EDGE` - 1 points; None where it has no area."""
    ring = np.vstack([line, line[:1]])
    ring[:, 0] = np.unwrap(ring[:, 0], period=TURN)
    ring[:, 1] = np.clip(ring[:, 1], -POLE, POLE)
    turn = ring[-1, 0] - ring[0, 0]
    lengths = [np.hypot(*np.diff(edge, axis=0).T).sum() for edge in _sides(ring)]
    rows, columns = shape
    half = min((lengths[0] + lengths[2]) / rows, (lengths[1] + lengths[3]) / columns) / 4
    ring = np.vstack([*(_straightened(edge, half)[:-1] for edge in _sides(ring)), ring[-1:]])
    if abs(turn) > TURN / 2:  # once round a pole
        pole = math.copysign(POLE, ring[:, 1].mean())
        ring = _from_antimeridian(ring, turn)
        ring = np.vstack([ring, [ring[-1, 0], pole], [ring[0, 0], pole]])
    west, south = map(float, ring.min(0))
    east, north = map(float, ring.max(0))
    if east - west >= TURN:
        if abs(turn) <= TURN / 2:  # the whole world, and an overlap
            ring = np.array([[-180, north], [-180, south], [180, south], [180, north]], float)
        bbox = [-180.0, south, 180.0, north]
    else:
        bbox = [_wrapped(west), south, _wrapped(east, 180.0), north]
    geometry = _geometry(ring)
    return Footprint(geometry, [round(number, DIGITS) for number in bbox]) if geometry["coordinates"] else None


def _from_antimeridian(ring: Line, turn: float) -> Line:
    """Return a ring round a pole that begins and ends at the antimeridian, so that no other meridian cuts it."""
    zone = np.floor((ring[:, 0] - 180.0) / TURN)
    last = int(np.flatnonzero(np.diff(zone))[0])
    limit = 180.0 + TURN * max(zone[last], zone[last + 1])
    before, after = ring[last], ring[last + 1]
    latitude = before[1] + (limit - before[0]) / (after[0] - before[0]) * (after[1] - before[1])
    return np.vstack(
        [[limit, latitude], ring[last + 1 :], ring[1 : last + 1] + np.array([turn, 0.0]), [limit + turn, latitude]]
    )


def _sides(ring: Line) -> list[Line]:
    """Return the four edges of a closed ring, each with both of its ends."""
    size = EDGE - 1
    return [ring[start : start + size + 1] for start in range(0, CORNERS * size, size)]


def _straightened(edge: Line, tolerance: float) -> Line:
    """Return as few points of an edge as keep to it."""
    number = np.arange(len(edge))
    for count in SEGMENTS:
        kept = number[:: (EDGE - 1) // count]
        straight = np.column_stack([np.interp(number, kept, edge[kept, axis]) for axis in (0, 1)])
        if np.hypot(*(straight - edge).T).max() <= tolerance:
            return edge[kept]
    return edge


def _wrapped(longitude: float, last: float = -180.0) -> float:
    """Return the same longitude from -180 to 180; `last` is which of the two the antimeridian is."""
    found = (longitude + 180.0) % TURN - 180.0
    return last if found in {-180.0, 180.0} else found


def _geometry(ring: Line) -> dict[str, Any]:
    """Return a ring of any longitudes as polygons between -180 and 180."""
    first = math.floor((ring[:, 0].min() + 180.0) / TURN)
    last = math.ceil((ring[:, 0].max() + 180.0) / TURN)
    polygons = []
    for turn in range(first, max(last, first + 1)):
        part = ring - [turn * TURN, 0.0]
        for limit, side in ((-180.0, 1.0), (180.0, -1.0)):
            part = _cut(part, limit, side)
        coordinates = _closed(part)
        if coordinates:
            polygons.append([coordinates])
    if len(polygons) == 1:
        return {"type": "Polygon", "coordinates": polygons[0]}
    return {"type": "MultiPolygon", "coordinates": polygons}


def _cut(ring: Line, limit: float, side: float) -> Line:
    """Return what of a ring lies on one side of a meridian (Sutherland and Hodgman)."""
    found: list[Any] = []
    distance = (ring[:, 0] - limit) * side if len(ring) else np.empty(0)
    for number in range(len(ring)):
        here, there = ring[number - 1], ring[number]
        before, after = distance[number - 1], distance[number]
        if (before < 0) != (after < 0):
            share = before / (before - after)
            found.append([limit, here[1] + share * (there[1] - here[1])])
        if after >= 0:
            found.append(there)
    return np.array(found).reshape(-1, 2)


def _closed(ring: Line) -> list[list[float]]:
    """Return a ring's points as GeoJSON has them: the first again at the end, counterclockwise; nothing of no area."""
    points = [[round(float(x), DIGITS) + 0.0, round(float(y), DIGITS) + 0.0] for x, y in ring]
    points = [point for number, point in enumerate(points) if point != points[number - 1]]
    if len(points) < CORNERS - 1:
        return []
    points.append(points[0])
    area = sum(x * v - u * y for (x, y), (u, v) in pairwise(points))
    return [] if area == 0 else points if area > 0 else points[::-1]


def joined(parts: Sequence[Footprint]) -> Footprint:
    """Return the ground of several images together."""
    polygons: list[Any] = []
    for part in parts:
        coordinates = part.geometry["coordinates"]
        polygons += coordinates if part.geometry["type"] == "MultiPolygon" else [coordinates]
    distinct = [polygon for number, polygon in enumerate(polygons) if polygon not in polygons[:number]]
    bounds = Bounds()
    for part in parts:
        bounds.add(part.bbox)
    kind, whole = ("Polygon", distinct[0]) if len(distinct) == 1 else ("MultiPolygon", distinct)
    return Footprint({"type": kind, "coordinates": whole}, bounds.bbox())


class Bounds:
    """The bounds of many, across the antimeridian where that is the shorter way round."""

    def __init__(self) -> None:
        self._span = [math.inf, -math.inf]
        self._from_greenwich = [math.inf, -math.inf]
        self._latitudes = [math.inf, -math.inf]

    def add(self, bbox: Sequence[float]) -> None:
        """Take the bounds of one."""
        west, south, east, north = bbox
        crosses = west > east
        self._widen(self._span, *((-180.0, 180.0) if crosses else (west, east)))
        both = (west % TURN, east % TURN) if east % TURN or not west % TURN else (west % TURN, TURN)
        self._widen(self._from_greenwich, *(both if both[0] <= both[1] else (0.0, TURN)))
        self._widen(self._latitudes, south, north)

    def _widen(self, span: list[float], low: float, high: float) -> None:
        span[:] = min(span[0], low), max(span[1], high)

    def bbox(self) -> list[float]:
        """Return the bounds of all."""
        (west, east), (south, north) = self._span, self._latitudes
        start, stop = self._from_greenwich
        if stop - start < east - west:
            west, east = _wrapped(start), _wrapped(stop, 180.0)
        return [round(number, DIGITS) for number in (west, south, east, north)]


# Images without an affine


def _fitted(points: Sequence[Json], column: Line, row: Line) -> tuple[Line, Line] | None:
    """Return x and y of places in an image by a surface through its control points; None of too few, or in a line."""
    try:
        known = np.array([[point[name] for name in ("column", "row", "x", "y")] for point in points], float)
    except (KeyError, TypeError, ValueError):
        return None
    if len(known) < CORNERS - 1 or not np.isfinite(known).all():
        return None
    middle, size = known[:, :2].mean(0), np.ptp(known[:, :2], axis=0).clip(1)
    terms = CORNERS - 1 if len(known) < CORNERS else CORNERS if len(known) < QUADRATIC else 6

    def surface(across: Line, down: Line) -> Line:
        u, v = (across - middle[0]) / size[0], (down - middle[1]) / size[1]
        return np.column_stack([np.ones_like(u), u, v, u * v, u * u, v * v][:terms])

    solved, _, rank, _ = np.linalg.lstsq(surface(known[:, 0], known[:, 1]), known[:, 2:], rcond=None)
    if rank < terms:
        return None
    x, y = (surface(column, row) @ solved).T
    return x, y


def _modelled(rpc: Json, column: Line, row: Line) -> Line | None:
    """Return the ground of places in an image by its sensor model, at the height that the model is around."""
    try:
        number = {name: float(rpc[name]) for name in _SCALES}
        terms = [np.array(rpc[f"{name}_COEFF"], float) for name in _POLYNOMIALS]
    except (KeyError, TypeError, ValueError):
        return None
    if any(len(each) != _TERMS for each in terms):
        return None
    wanted = np.column_stack(
        [  # the model counts from the middle of a pixel
            (row - 0.5 - number["LINE_OFF"]) / number["LINE_SCALE"],
            (column - 0.5 - number["SAMP_OFF"]) / number["SAMP_SCALE"],
        ]
    )

    def image(ground: Line) -> Line:
        found = _powers(ground[:, 0], ground[:, 1])
        return np.column_stack([found @ terms[0] / (found @ terms[1]), found @ terms[2] / (found @ terms[3])])

    ground, step = np.zeros_like(wanted), 1e-6
    for _ in range(ROUNDS):
        here = image(ground)
        slopes = [(image(ground + move) - here) / step for move in ([step, 0.0], [0.0, step])]
        with np.errstate(all="ignore"):
            (a, c), (b, d) = (slope.T for slope in slopes)
            p, q = (wanted - here).T
            change = np.column_stack([d * p - b * q, a * q - c * p]) / (a * d - b * c)[:, None]
        ground = ground + change
        if not np.isfinite(change).all():
            return None
        if np.abs(change).max() < step / 100:
            scale, offset = ([number[f"{name}_{kind}"] for name in ("LONG", "LAT")] for kind in ("SCALE", "OFF"))
            return np.asarray(ground * scale + offset, np.float64)
    return None


_SCALES = tuple(f"{name}_{kind}" for name in ("LINE", "SAMP", "LONG", "LAT") for kind in ("OFF", "SCALE"))
_POLYNOMIALS = ("LINE_NUM", "LINE_DEN", "SAMP_NUM", "SAMP_DEN")
_TERMS = 20


def _powers(x: Line, y: Line) -> Line:
    """Return the 20 terms of RPC00B's polynomials in longitude and latitude, at the height of zero."""
    zero, one = np.zeros_like(x), np.ones_like(x)
    terms = [one, x, y, zero, x * y, zero, zero, x * x, y * y, zero]
    return np.column_stack([*terms, zero, x**3, x * y * y, zero, x * x * y, y**3, zero, zero, zero, zero])
