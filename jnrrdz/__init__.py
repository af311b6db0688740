"""Archival imagery as Zarr, without copying a byte of it."""
