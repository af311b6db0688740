"""The forms of a manifest, a record each: what commands, the command line and STAC ask of them.

What writes a form is `write` of the module of its name in this folder.
"""

from collections.abc import Mapping

from jnrrdz.records import record


@record
class ManifestForm:
    """One form."""

    name: str
    """In `--format`, and of the module that writes it."""

    endings: tuple[str, ...]
    """Of names, the usual one first."""

    title: str
    """For people, such as `JSON manifest`."""

    media_type: str


FORMS: Mapping[str, ManifestForm] = {
    form.name: form
    for form in (
        ManifestForm("json", (".json",), "JSON manifest", "application/json"),
        ManifestForm(
            "parquet",
            (".parquet", ".parq"),
            "Parquet manifest",
            "application/vnd.apache.parquet",
        ),
        ManifestForm(
            "icechunk",
            (".icechunk",),
            "Icechunk repository",
            "application/vnd.zarr+icechunk",
        ),
    )
}
"""Every form by its name; the first is that of a name without an ending."""

ENDINGS: Mapping[str, str] = {ending: form.name for form in FORMS.values() for ending in form.endings}
"""The form that an ending stands for."""
