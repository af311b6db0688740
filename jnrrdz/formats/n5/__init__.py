"""N5 containers and datasets."""

from jnrrdz.formats.format import Format

N5 = Format(
    "N5",
    scan="jnrrdz.formats.n5.scan:scan_n5",
    in_place="jnrrdz.formats.n5.scan:describe_in_place",
    verify_listing="jnrrdz.formats.n5.verify:NewObjects",
    is_directory=True,
    marks=("attributes.json",),
    endings=(".n5",),
    options=("chain", "stack_timepoints", "allow_odd_blocks"),
)
