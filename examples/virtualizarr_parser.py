"""Use jnrrdz inside VirtualiZarr: `python examples/virtualizarr_parser.py [FILE]`.

Without an argument it uses the demo's file.  `jnrrdz.Parser` is a VirtualiZarr parser, so virtual
datasets of many files can be concatenated and written with VirtualiZarr's own tools.
"""

import sys
from pathlib import Path

import virtualizarr
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore
from terrain import terrain_cog

import jnrrdz


def main(source: Path) -> None:
    """Print the virtual dataset and where its first chunks are."""
    registry = ObjectStoreRegistry({"file://": LocalStore()})
    url = source.resolve().as_uri()
    dataset = virtualizarr.open_virtual_dataset(url, registry=registry, parser=jnrrdz.Parser())
    print(dataset)
    manifest = dataset["data"].data.manifest.dict()
    for key in list(manifest)[:3]:
        print(f"chunk {key}: {manifest[key]['length']} bytes at {manifest[key]['offset']}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else terrain_cog())
