"""References to arrays: manifests, the store over them, trust, and the xarray engine."""
