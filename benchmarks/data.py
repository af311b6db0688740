"""The files that the benchmarks read: made once, kept in `.benchmarks/`.

Pictures are terrain of a natural spectrum with sensor
noise, so that deflate with predictor 2 halves them and JPEG at quality 75 has real work.  The
million-tile file is BigTIFF 1.0 (https://www.awaresystems.be/imaging/tiff/bigtiff.html), written
by hand because no library writes a million tiles in seconds.  `python benchmarks/data.py` makes
them all.
"""

import argparse
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import glymur
import numpy as np
import rasterio
import rasterio.shutil
import tifffile
from numpy.typing import NDArray
from rasterio.transform import from_origin
from rasterio.windows import Window

CACHE = Path(__file__).resolve().parent.parent / ".benchmarks"
PERIOD = 4096
BAND = 2048
TILE = 512
SMALL_TILE = 16
GEO = {"crs": "EPSG:32633", "transform": from_origin(300_000, 5_000_040, 10, 10)}
COG_OPTIONS = {"driver": "COG", "BLOCKSIZE": TILE, "NUM_THREADS": 2, "OVERVIEWS": "AUTO", "BIGTIFF": "IF_SAFER"}


@dataclass(frozen=True)
class Sizes:
    """How large each data set is."""

    deflate: int
    jpeg: int
    tiles: int
    webp: int
    planar: int
    strips: int
    n5: int
    jnrrd: int
    one_tile: int
    band: int


@dataclass(frozen=True)
class Picture:
    """What a synthetic picture looks like."""

    samples: int
    dtype: str
    scale: float
    """Difference between the lowest and the highest ground."""
    noise: float
    """Standard deviation of the sensor."""


ELEVATION = Picture(samples=1, dtype="uint16", scale=12_000.0, noise=6.0)
ORTHOPHOTO = Picture(samples=3, dtype="uint8", scale=200.0, noise=20.0)
HEIGHTS = Picture(samples=1, dtype="float32", scale=3000.0, noise=0.5)
SPECTRUM = Picture(samples=3, dtype="uint16", scale=12_000.0, noise=6.0)
FULL = Sizes(
    deflate=16384,
    jpeg=8192,
    tiles=1_000_000,
    webp=4096,
    planar=8192,
    strips=16384,
    n5=512,
    one_tile=16384,
    band=10980,
    jnrrd=2048,
)
QUICK = Sizes(
    deflate=4096,
    jpeg=2048,
    tiles=40_000,
    webp=1024,
    planar=2048,
    strips=4096,
    n5=256,
    one_tile=8192,
    band=5490,
    jnrrd=1024,
)


def cache() -> Path:
    """Return the folder that keeps the data sets, made where it is missing."""
    CACHE.mkdir(exist_ok=True)
    return CACHE


def terrain(size: int, seed: int) -> NDArray[np.float32]:
    """Return a periodic height field between 0 and 1 whose amplitudes fall with frequency."""
    rng = np.random.default_rng(seed)
    rows, columns = np.fft.fftfreq(size)[:, None], np.fft.rfftfreq(size)[None, :]
    frequency = np.hypot(rows, columns)
    frequency[0, 0] = 1.0
    spectrum = np.fft.rfft2(rng.standard_normal((size, size))) / frequency**1.8
    spectrum[0, 0] = 0.0
    height = np.fft.irfft2(spectrum, s=(size, size)).astype(np.float32)
    height -= height.min()
    return height / height.max()


def bands(size: int, picture: Picture) -> Iterator[NDArray[np.generic]]:
    """Yield bands of rows, (samples, rows, size) each, noise drawn anew everywhere."""
    period = min(size, PERIOD)
    fields = [terrain(period, seed) for seed in range(picture.samples)]
    rng = np.random.default_rng(7)
    top = np.iinfo(picture.dtype).max if np.dtype(picture.dtype).kind in "ui" else np.inf
    for start in range(0, size, min(BAND, size)):
        rows = np.arange(start, start + min(BAND, size)) % period
        band = np.stack([np.tile(field[rows], (1, size // period)) for field in fields]) * np.float32(picture.scale)
        band += (rng.standard_normal(band.shape, dtype=np.float32) + 4) * np.float32(picture.noise)
        yield np.clip(band, 0, top).astype(picture.dtype)


def draw(path: Path, size: int, picture: Picture) -> None:
    """Write the picture as a plain tiled TIFF, to be copied into its final form."""
    profile = {"driver": "GTiff", "width": size, "height": size, "count": picture.samples, "dtype": picture.dtype}
    profile |= {"tiled": True, "interleave": "pixel", **GEO}
    if picture.samples > 1:
        profile["photometric"] = "RGB"
    with rasterio.open(path, "w", **profile) as target:
        row = 0
        for band in bands(size, picture):
            rows = min(band.shape[1], size - row)
            target.write(band[:, :rows], window=Window(0, row, size, rows))
            row += rows


def cog(name: str, size: int, picture: Picture, **options: object) -> Path:
    """Return the COG of that name, made through GDAL where it is not there yet."""
    path = cache() / f"{name}-{size}.tif"
    if not path.exists():
        plain, partial = path.with_suffix(".plain"), path.with_suffix(".partial")
        draw(plain, size, picture)
        rasterio.shutil.copy(plain, partial, **COG_OPTIONS, **options)
        plain.unlink()
        partial.rename(path)
    return path


def deflate_cog(size: int) -> Path:
    """Return a uint16 COG, deflate with predictor 2, tiles of 512, with overviews."""
    return cog("deflate", size, ELEVATION, COMPRESS="DEFLATE", PREDICTOR="YES")


def jpeg_cog(size: int) -> Path:
    """Return an RGB COG, JPEG in YCbCr at quality 75, tiles of 512, with overviews."""
    return cog("jpeg", size, ORTHOPHOTO, COMPRESS="JPEG", QUALITY=75)


def float_cog(size: int) -> Path:
    """Return a float32 COG, ZSTD with predictor 3, tiles of 512, with overviews."""
    return cog("float", size, HEIGHTS, COMPRESS="ZSTD", PREDICTOR="YES")


def webp_cog(size: int) -> Path:
    """Return an RGB COG, lossy WebP at quality 75, tiles of 512, with overviews."""
    return cog("webp", size, ORTHOPHOTO, COMPRESS="WEBP", QUALITY=75)


def planar_cog(size: int) -> Path:
    """Return a uint16 COG of three bands stored apart, deflate with predictor 2, tiles of 512, with overviews."""
    return cog("planar", size, SPECTRUM, COMPRESS="DEFLATE", PREDICTOR="YES", INTERLEAVE="BAND")


def row_strips(size: int) -> Path:
    """Return a uint16 TIFF, not compressed, every row a strip."""
    path = cache() / f"strips-{size}.tif"
    if not path.exists():
        rows = np.arange(size * size, dtype=np.uint16).reshape(size, size)
        tifffile.imwrite(path, rows, rowsperstrip=1)
    return path


def small_tiles(side: int) -> list[bytes]:
    """Return 64 deflated square tiles of uint8 that differ in content and length."""
    ramp = np.add.outer(np.arange(side), np.arange(side))
    return [zlib.compress((ramp * (k % 8) // (1 + k // 8) + k).astype(np.uint8).tobytes()) for k in range(64)]


def small_cog() -> Path:
    """Return a COG of 512 x 512 in four tiles with one overview, as scenes are cut into."""
    path = cache() / "small.tif"
    if not path.exists():
        rows, columns = np.mgrid[:512, :512]
        options = {**COG_OPTIONS, **GEO, "BLOCKSIZE": 256, "COMPRESS": "DEFLATE", "PREDICTOR": 2, "nodata": 7}
        with rasterio.open(path, "w", width=512, height=512, count=1, dtype="uint16", **options) as target:
            target.write((rows * columns // 64).astype("u2"), 1)
    return path


def small_jp2() -> Path:
    """Return a JPEG 2000 of 2048 x 2048 in 1,024 tiles at six resolutions."""
    path = cache() / "small.jp2"
    if not path.exists():
        pixels = (np.add.outer(np.arange(2048), np.arange(2048)) // 8).astype(np.uint8)
        glymur.Jp2k(path, data=pixels, tilesize=(64, 64))
    return path


def many_tiles(count: int, side: int = SMALL_TILE) -> Path:
    """Return a one-image BigTIFF of about `count` deflated tiles, near square; tiles of 16x16 if no side is given."""
    across = int(count**0.5)
    count = across * across
    path = cache() / (f"tiles-{count}.tif" if side == SMALL_TILE else f"tiles-{count}-of-{side}.tif")
    if not path.exists():
        partial = path.with_suffix(".partial")
        partial.write_bytes(b"".join(_many_tiles(across, side)))
        partial.rename(path)
    return path


def _many_tiles(across: int, tile: int) -> list[bytes]:
    """Return header, IFD, offsets, byte counts and tiles: each array where the IFD says."""
    pool = small_tiles(tile)
    picks = np.random.default_rng(3).integers(0, len(pool), across * across)
    counts = np.array([len(tile) for tile in pool], "<u4")[picks]
    header, entries = 16, 10
    offsets_at = header + 8 + 20 * entries + 8
    counts_at = offsets_at + 8 * len(picks)
    first = counts_at + 4 * len(picks)
    offsets = (np.cumsum(counts, dtype="<u8") - counts + first).astype("<u8")
    side = across * tile
    short, long, long8 = 3, 4, 16
    table = [
        (256, long, 1, side),
        (257, long, 1, side),
        (258, short, 1, 8),
        (259, short, 1, 8),  # deflate
        (262, short, 1, 1),  # black is zero
        (277, short, 1, 1),
        (322, short, 1, tile),
        (323, short, 1, tile),
        (324, long8, len(picks), offsets_at),
        (325, long, len(picks), counts_at),
    ]
    ifd = struct.pack("<Q", entries) + b"".join(struct.pack("<HHQQ", *row) for row in table) + struct.pack("<Q", 0)
    tiles = b"".join([pool[pick] for pick in picks.tolist()])
    return [struct.pack("<2sHHHQ", b"II", 43, 8, 0, header), ifd, offsets.tobytes(), counts.tobytes(), tiles]


def main() -> None:
    """Make every data set and say where it is."""
    parser = argparse.ArgumentParser(description="Make the benchmarks' data sets.")
    parser.add_argument("--quick", action="store_true", help="small ones")
    sizes = QUICK if parser.parse_args().quick else FULL
    paths = (
        many_tiles(sizes.tiles),
        jpeg_cog(sizes.jpeg),
        deflate_cog(sizes.deflate),
        webp_cog(sizes.webp),
        planar_cog(sizes.planar),
        row_strips(sizes.strips),
    )
    for path in paths:
        print(f"{path.relative_to(Path.cwd(), walk_up=True)}  {path.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
