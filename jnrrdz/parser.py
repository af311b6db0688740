"""A VirtualiZarr parser over every scanner; it stands apart from what makes the manifest, which needs VirtualiZarr.

Interface: https://virtualizarr.readthedocs.io/en/stable/custom_parsers.html
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jnrrdz.api import scan
from jnrrdz.core.arrays import VirtualArray, VirtualGroup
from jnrrdz.errors import JnrrdzError
from jnrrdz.manifests.manifest import form_module
from jnrrdz.options import ScanChoices, ScanOptions, with_choices

if TYPE_CHECKING:
    from obspec_utils.registry import ObjectStoreRegistry
    from virtualizarr.manifests import ManifestStore


@dataclass(frozen=True)
class Parser:
    """`virtualizarr.open_virtual_dataset(url, registry=registry, parser=jnrrdz.Parser())`.

    `group` names the group to take (an overview, a page); left out, it is the full-resolution image.
    """

    group: str | None = None
    single_range: bool = False
    storage_options: Mapping[str, Any] | None = None
    choices: ScanChoices = field(default_factory=ScanChoices)
    """What `jnrrdz.scan` may be asked, for example `{"physical": True}`."""

    def __call__(self, url: str, registry: "ObjectStoreRegistry[Any]") -> "ManifestStore":
        """Return the manifest store of one source."""
        (options,) = with_choices(self.choices, ScanOptions())
        root = scan(url, options.whole_tiles(), storage_options=self.storage_options)
        chosen = _chosen(root, self.group, url)
        store: ManifestStore = form_module("virtualizarr").to_manifest_store(
            chosen, registry, single_range=self.single_range
        )
        return store


def _chosen(root: VirtualGroup, group: str | None, url: str) -> VirtualGroup:
    """Return the named group, or the first one on the way down that holds an image."""
    chosen = root
    for name in (group or "").strip("/").split("/") if group else ():
        child = chosen.children.get(name)
        if not isinstance(child, VirtualGroup):
            raise JnrrdzError("no such group", url=url, field=group)
        chosen = child
    while group is None and not any(isinstance(child, VirtualArray) for child in chosen.children.values()):
        chosen = next(child for child in chosen.children.values() if isinstance(child, VirtualGroup))
    return VirtualGroup(chosen.children, chosen.attributes, root.sources)
