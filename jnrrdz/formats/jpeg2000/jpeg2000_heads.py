"""How much of a tile-part a lower resolution needs, by the packet lengths in its header (PLT).

May touch numpy, errors and the layouts of JPEG 2000; pure.  Where resolutions come first in the progression,
the packets of the lower ones are the head of a tile-part.  Lengths are taken at their word here: who decodes
such a head reads the packet headers, and counts (`jpeg2000_levels`).
Spec: ITU-T T.800, A.7.3 (PLT), B.12 (progression orders)
"""

import numpy as np

from jnrrdz.errors import MalformedError, UnsupportedError
from jnrrdz.formats.jpeg2000.jpeg2000_coding import IN_TILES, Coding, coding
from jnrrdz.formats.jpeg2000.jpeg2000_markers import Marker, Progression, segments
from jnrrdz.formats.jpeg2000.jpeg2000_packets import plt_lengths
from jnrrdz.formats.jpeg2000.jpeg2000_precincts import resolution
from jnrrdz.formats.jpeg2000.tile_parts import SOT_BYTES

SOD_BYTES = 2


class Heads:
    """The heads of the tile-parts that were seen, for each resolution."""

    def __init__(self, header: bytes) -> None:
        """Take the main header; of one that says more than can be counted by, no head is known."""
        self.lengths: dict[int, tuple[int, ...]] = {}
        """For each tile, the bytes of its first tile-part up to and with each resolution, lowest first."""
        try:
            known = coding(header)
        except (UnsupportedError, MalformedError):
            known = None
        self._coding = known if known is not None and is_by_resolution(known.progression, known.layers) else None

    def see(self, tile: int, header: bytes) -> None:
        """Take the marker segments of a tile's first tile-part."""
        if self._coding is None:
            return
        found = list(segments(header, 0))
        plt = [header[one.start + 4 : one.stop] for one in found if one.marker == Marker.PLT]
        if not plt or any(one.marker in set(IN_TILES) for one in found):
            return
        try:
            lengths = plt_lengths(plt)
        except MalformedError:
            return
        counts = resolution_packets(self._coding, tile)
        if sum(counts) != len(lengths):
            return  # a tile-part that does not hold the whole tile, or is not what the header says
        ends = np.concatenate(([0], np.cumsum(lengths)))[np.cumsum(counts)] + (SOT_BYTES + len(header) + SOD_BYTES)
        self.lengths[tile] = tuple(ends.tolist())


def is_by_resolution(progression: int, layers: int) -> bool:
    """Whether all packets of a resolution stand before those of the next one."""
    first = {Progression.RLCP, Progression.RPCL}
    return progression in first or (progression == Progression.LRCP and layers == 1)


def resolution_packets(known: Coding, tile: int) -> list[int]:
    """Return the number of packets of each resolution of a tile, lowest first."""
    box, components = known.tile_box(tile), range(len(known.siz.components))
    return [
        known.layers * sum(resolution(known, box, component, number).count for component in components)
        for number in range(known.levels + 1)
    ]
