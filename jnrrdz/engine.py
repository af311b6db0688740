"""xarray engine (the entry point)."""
