"""What merging many manifests takes: `python benchmarks/merge_many.py [--manifests 10000] [--chunks 100]`.

Writes manifests of one array each, and a real one's attributes, then merges them in a process of its own
to JSON and to Parquet; printed are the seconds and the process's peak memory.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

TILE = 256
FORMS = {"json": ".json", "parquet": ".parquet"}


def prepare(folder: Path, manifests: int, chunks: int) -> None:
    """Write the manifests: the first one by jnrrdz, the others as copies with another source."""
    from jnrrdz.core.arrays import SourceRecord, VirtualArray, VirtualGroup
    from jnrrdz.core.codecs import TiffTileConfig, bytes_
    from jnrrdz.core.georeference import grid_mapping, spatial
    from jnrrdz.core.refs import ChunkRefs
    from jnrrdz.manifests import json as kerchunk_json

    side = int(chunks**0.5)
    name = str(folder / "scene_00000.tif")
    lengths = np.random.default_rng(0).integers(10_000, 90_000, side * side)
    refs = ChunkRefs.single(name, np.cumsum(lengths), lengths)
    size = side * TILE
    config = TiffTileConfig(TILE, TILE, size, size, compression=8, bits_per_sample=(16,), predictor=2)
    affine = (10.0, 0.0, 300000.0, 0.0, -10.0, 4900020.0)
    shape, tile = (size, size), (TILE, TILE)
    dims, named = ("y", "x"), {"grid_mapping": "spatial_ref"}
    data = VirtualArray(shape, np.dtype("u2"), tile, (config,), refs, dims, np.uint16(0), named)
    mapping = grid_mapping(None, affine)
    where = VirtualArray((), np.dtype("i8"), (), (bytes_("little"),), ChunkRefs.empty(1), (), np.int64(0), mapping)
    records = (SourceRecord(name, 10_000_000, '"etag"'),)
    root = VirtualGroup({"data": data, "spatial_ref": where}, spatial(shape, affine, None), records)
    first = folder / "scene_00000.json"
    kerchunk_json.write(root, str(first))
    text = first.read_text()
    for number in range(1, manifests):
        (folder / f"scene_{number:05}.json").write_text(text.replace("scene_00000", f"scene_{number:05}"))


def merge(folder: Path, form: str) -> None:
    """Merge all manifests, and say what it took."""
    from jnrrdz.commands.merge import merge

    refs = sorted(map(str, folder.glob("scene_*.json")))
    start = time.perf_counter()
    out = folder / f"merged{FORMS[form]}"
    done = merge(refs, out, concat_dim="time", coord_from=r"scene_(\d+)", overwrite=True)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    what = f"{len(done.members):,} manifests, {done.chunks:,} chunks"
    print(f"{form:8} {what}: {seconds:.1f} s, peak {peak:.0f} MB")


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--manifests", type=int, default=10_000)
    parser.add_argument("--chunks", type=int, default=100)
    parser.add_argument("--one", choices=FORMS)
    parser.add_argument("--work", type=Path)
    options = parser.parse_args()
    if options.one:
        merge(options.work, options.one)
        return
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name), options.manifests, options.chunks)
        for form in FORMS:
            subprocess.run([sys.executable, __file__, "--one", form, "--work", name], check=True)


if __name__ == "__main__":
    main()
