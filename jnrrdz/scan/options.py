"""What a user may ask of a scan, whatever the format.  A plain record."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ScanOptions:
    """Choices that every scanner understands."""

    overviews: bool = True
    """Take the smaller versions of an image that the file holds."""
