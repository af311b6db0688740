"""The field tables of NITF 2.0 headers, where they differ from those of 2.1.

May touch the field reader and the tables of 2.1.  2.0 has other security fields, one of which
(a downgrade event) is there only if the one before it says so; symbols and labels in place of
graphics; and `N` in ICORDS means no coordinates, where in 2.1 it is the northern hemisphere.
Spec: MIL-STD-2500A, https://gwg.nga.mil/gwg/focus-groups/ntb/documents.html
"""

from jnrrdz.formats.nitf.nitf_fields import Cursor, table
from jnrrdz.formats.nitf.nitf_tables import SegmentLengths, Version

SECURITY = table("SCLAS:1 SCODE:40 SCTLH:40 SREL:40 SCAUT:20 SCTLN:20 SDWNG:6")
EVENT = "999998"
EVENT_BYTES = 40


def security(cursor: Cursor, prefix: str) -> None:
    """Read the security fields of NITF 2.0, with the downgrading event where there is one."""
    cursor.take(one._replace(name=f"{prefix}{one.name}") for one in SECURITY)
    if cursor.found[f"{prefix}SDWNG"] == EVENT:
        cursor.text(f"{prefix}SDEVT", EVENT_BYTES)


NITF20 = Version(
    security=security,
    origin=table("ONAME:27 OPHONE:18"),
    segments=(
        SegmentLengths("image", "NUMI", ("LISH", 6), ("LI", 10)),
        SegmentLengths("symbol", "NUMS", ("LSSH", 4), ("LS", 6)),
        SegmentLengths("label", "NUML", ("LLSH", 4), ("LL", 3)),
        SegmentLengths("text", "NUMT", ("LTSH", 4), ("LT", 5)),
        SegmentLengths("extension", "NUMD", ("LDSH", 4), ("LD", 9)),
        SegmentLengths("reserved_extension", "NUMR", ("LRESH", 4), ("LRE", 7)),
    ),
    image=table("IM:2 IID:10 IDATIM:14 TGTID:17 ITITLE:80"),
    graphic=(
        table("SY:2 SID:10 SNAME:20"),
        table(
            "ENCRYP:1# STYPE:1 NLIPS:4# NPIXPL:4# NWDTH:4# NBPP:1# SDLVL:3# SALVL:3# SLOC:10 SLOC2:10 SCOLOR:1 "
            "SNUM:6 SROT:3# NELUT:3#"
        ),
    ),
    label=(
        table("LA:2 LID:10"),
        table("ENCRYP:1# LFS:1 LCW:2 LCH:2 LDLVL:3# LALVL:3# LLOC:10"),
    ),
    text=(table("TE:2 TEXTID:10 TXTDT:14 TXTITL:80"), table("ENCRYP:1# TXTFMT:3 TXSHDL:5#")),
    no_coordinates="N",
    overflow=frozenset({"TRE_OVERFLOW", "Registered Extensions", "Controlled Extensions"}),
)
