"""References as a zarr store."""
