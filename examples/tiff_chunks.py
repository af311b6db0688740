"""Write a Zarr array whose chunk files are TIFF files: `python examples/tiff_chunks.py [FOLDER]`.

Each chunk file opens in any program that reads TIFF, and the array in zarr wherever jnrrdz is installed.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import tifffile
import zarr
from terrain import mountains
from zarr.codecs import BytesCodec, ZstdCodec

from jnrrdz.codecs import OffsetCodec, PadCodec, tiff_header


def main(folder: Path) -> None:
    """Write one array without compression and one with, and read a chunk of each as a TIFF."""
    pixels = mountains(512)

    # without compression all chunks have one header, which zarr.json holds
    header = bytes(tiff_header((256, 256), pixels.dtype))
    plain = zarr.create_array(
        folder / "plain.zarr",
        shape=pixels.shape,
        chunks=(256, 256),
        dtype=pixels.dtype,
        serializer=BytesCodec(endian="little"),
        compressors=[OffsetCodec(offset=len(header), prefix=header)],
        chunk_key_encoding={"name": "v2", "separator": "."},
        config={"write_empty_chunks": True},  # a chunk of nothing but the fill value is a file too
    )
    plain[:] = pixels

    # behind a compressor the header depends on the chunk: give zarr the header itself, a function of the chunk
    by_chunk = tiff_header((256, 256), pixels.dtype, compressor="zstd")
    packed = zarr.create_array(
        folder / "packed.zarr",
        shape=pixels.shape,
        chunks=(256, 256),
        dtype=pixels.dtype,
        serializer=BytesCodec(endian="little"),
        compressors=[ZstdCodec(level=9), PadCodec(location="start", nbytes=len(by_chunk), padding_func=by_chunk)],
        chunk_key_encoding={"name": "v2", "separator": "."},
        config={"write_empty_chunks": True},
    )
    packed[:] = pixels

    for name in ("plain.zarr", "packed.zarr"):
        chunk = folder / name / "0.1"
        if not np.array_equal(tifffile.imread(chunk), pixels[:256, 256:]):
            raise SystemExit(f"{chunk} is not the second chunk's pixels")
        if not np.array_equal(zarr.open_array(folder / name, mode="r")[:], pixels):
            raise SystemExit(f"{name} does not read as it was written")
        print(f"{name}: chunk 0.1 is a TIFF of {chunk.stat().st_size} bytes, and the array reads as it was written")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
