"""Datasets by zarr 2's N5Store: run by the interpreter of an environment that has zarr 2.

Reads one JSON list of cases from standard
input; the values of each stand beside its dataset as `PATH.npy`, x first.
"""

import json
import sys
import warnings
from pathlib import Path

import numcodecs
import numpy as np
import zarr

CODECS = {
    "raw": lambda told: None,  # noqa: ARG005
    "gzip": lambda told: numcodecs.GZip(told["level"]),
    "zlib": lambda told: numcodecs.Zlib(told["level"]),
    "bz2": lambda told: numcodecs.BZ2(told["level"]),
    "lzma": lambda told: numcodecs.LZMA(preset=told["preset"]),
    "zstd": lambda told: numcodecs.Zstd(told["level"]),
    "lz4": lambda told: numcodecs.LZ4(),  # noqa: ARG005
    "blosc": lambda told: numcodecs.Blosc(told["cname"], 5, told["shuffle"]),
}


def main() -> None:
    """Write every dataset that is asked for."""
    warnings.simplefilter("ignore")
    for case in json.load(sys.stdin):
        path = Path(case["path"])
        values = np.load(f"{path}.npy").T  # the store reverses, so that x comes first again
        array = zarr.create(
            shape=values.shape,
            chunks=tuple(case["block"][::-1]),
            dtype=values.dtype,
            compressor=CODECS[case["compression"]["type"]](case["compression"]),
            store=zarr.N5Store(str(path)),
            fill_value=0,
        )
        array[...] = values


if __name__ == "__main__":
    main()
