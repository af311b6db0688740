"""The codecs as zarr sees them: thin classes over the pure functions, so that a change in zarr's API stays here.

May touch zarr, errors, the model's codec names and jnrrdz.codecs.  One module for each kind of
codec; zarr finds the classes by the entry points in pyproject.toml.
"""
