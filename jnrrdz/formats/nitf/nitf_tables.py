"""The field tables of NITF 2.1 and NSIF 1.0 headers; those of NITF 2.0 stand in `nitf20`.

May touch the field reader only.  Names and widths are the standard's, in its order.
Spec: https://nsgreg.nga.mil/doc/view?i=5533 (JBP-2025.1, tables 5.11 to 5.18)
"""

from collections.abc import Callable
from dataclasses import dataclass

from jnrrdz.formats.nitf.nitf_fields import Cursor, Field, table

type Security = Callable[[Cursor, str], None]
"""Reads the security fields of a header; the text is the letter(s) that their names begin with."""


@dataclass(frozen=True)
class SegmentLengths:
    """A list of segments in the file header: how many, and each one's subheader and data length."""

    kind: str
    count: str
    subheader: tuple[str, int]
    data: tuple[str, int]


@dataclass(frozen=True)
class Version:
    """The tables of one version of the format."""

    security: Security
    origin: tuple[Field, ...]
    """What stands between ENCRYP and FL in the file header."""

    segments: tuple[SegmentLengths, ...]
    image: tuple[Field, ...]
    """The image subheader up to its security fields."""

    graphic: tuple[tuple[Field, ...], tuple[Field, ...]]
    """A graphic's subheader before and after its security fields."""

    label: tuple[tuple[Field, ...], tuple[Field, ...]] | None
    text: tuple[tuple[Field, ...], tuple[Field, ...]]
    no_coordinates: str
    """The value of ICORDS that says that IGEOLO is absent."""

    overflow: frozenset[str]
    """Identifiers of data extension segments that hold TREs for which a header has no room."""


FILE = table("FHDR:4 FVER:5 CLEVEL:2# STYPE:4 OSTAID:10 FDT:14 FTITLE:80")
COPIES = table("FSCOP:5# FSCPYS:5# ENCRYP:1#")
IMAGE_SHAPE = table("ENCRYP:1# ISORCE:42 NROWS:8# NCOLS:8# PVTYPE:3 IREP:8 ICAT:8 ABPP:2# PJUST:1 ICORDS:1")
IMAGE_BLOCKS = table("ISYNC:1# IMODE:1 NBPR:4# NBPC:4# NPPBH:4# NPPBV:4# NBPP:2# IDLVL:3# IALVL:3# ILOC:10 IMAG:4")
BAND = table("IREPBAND:2 ISUBCAT:6 IFC:1 IMFLT:3 NLUTS:1#")
EXTENSION = table("DE:2 DESID:25 DESVER:2#")
OVERFLOWED = table("DESOFLW:6 DESITEM:3#")

SECURITY = table(
    "SCLAS:1 SCLSY:2 SCODE:11 SCTLH:2 SREL:20 SDCTP:2 SDCDT:8 SDCXM:4 SDG:1 SDGDT:8 SCLTX:43 SCATP:1 SCAUT:40 "
    "SCRSN:1 SSRDT:8 SCTLN:15"
)


def security(cursor: Cursor, prefix: str) -> None:
    """Read the security fields of NITF 2.1."""
    cursor.take(one._replace(name=f"{prefix}{one.name}") for one in SECURITY)


NITF21 = Version(
    security=security,
    origin=table("FBKGC:3 ONAME:24 OPHONE:18"),
    segments=(
        SegmentLengths("image", "NUMI", ("LISH", 6), ("LI", 10)),
        SegmentLengths("graphic", "NUMS", ("LSSH", 4), ("LS", 6)),
        SegmentLengths("reserved", "NUMX", ("LXSH", 0), ("LX", 0)),
        SegmentLengths("text", "NUMT", ("LTSH", 4), ("LT", 5)),
        SegmentLengths("extension", "NUMDES", ("LDSH", 4), ("LD", 9)),
        SegmentLengths("reserved_extension", "NUMRES", ("LRESH", 4), ("LRE", 7)),
    ),
    image=table("IM:2 IID1:10 IDATIM:14 TGTID:17 IID2:80"),
    graphic=(
        table("SY:2 SID:10 SNAME:20"),
        table("ENCRYP:1# SFMT:1 SSTRUCT:13 SDLVL:3# SALVL:3# SLOC:10 SBND1:10 SCOLOR:1 SBND2:10 SRES2:2 SXSHDL:5#"),
    ),
    label=None,
    text=(table("TE:2 TEXTID:7 TXTALVL:3# TXTDT:14 TXTITL:80"), table("ENCRYP:1# TXTFMT:3 TXSHDL:5#")),
    no_coordinates=" ",
    overflow=frozenset({"TRE_OVERFLOW"}),
)
