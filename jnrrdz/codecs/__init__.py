"""Chunk bytes to arrays and back: pure functions; `adapter` alone knows zarr's codec classes."""
