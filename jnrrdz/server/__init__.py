"""Plain Zarr over HTTP: what is served is made in `plain`, and answered in `app`."""
