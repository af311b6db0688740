"""An archive in the form of Sentinel-2's: a file for each date, band and tile, at two resolutions, and its items."""

import json
from datetime import UTC, datetime

import numpy as np
import pystac
import rasterio
import rasterio.warp
from rasterio.transform import from_origin

from tests import writers

BANDS = {"B02": 10, "B04": 10, "B05": 20, "B11": 20}
DATES = [datetime(2024, 6, day, 10, 30, tzinfo=UTC) for day in (1, 11, 21)]
LEFT, TOP, SIDE = 600000, 5200000, 2560


def write(path, pixels, resolution, *, left=LEFT, **options):
    place = {"crs": "EPSG:32633", "transform": from_origin(left, TOP, resolution, resolution), "nodata": 0}
    writers.geotiff(path, pixels, **{**place, **writers.TILES, **options})


def items(folder, dates=DATES, tiles=2):
    """Write the files of every date, band and tile, and return their items."""
    random, made = np.random.default_rng(1), []
    for when in dates:
        for tile in range(tiles):
            left = LEFT + tile * SIDE
            box = rasterio.warp.transform_bounds("EPSG:32633", "EPSG:4326", left, TOP - SIDE, left + SIDE, TOP)
            ring = [[box[0], box[1]], [box[2], box[1]], [box[2], box[3]], [box[0], box[3]], [box[0], box[1]]]
            item = pystac.Item(
                f"T{tile}_{when:%Y%m%d}", {"type": "Polygon", "coordinates": [ring]}, list(box), when, {}
            )
            item.properties |= {"proj:code": "EPSG:32633", "updated": "2024-07-01T00:00:00Z"}
            for band, resolution in BANDS.items():
                side = SIDE // resolution
                path = folder / f"{item.id}_{band}.tif"
                write(path, random.integers(1, 9999, (side, side)).astype("u2"), resolution, left=left)
                asset = pystac.Asset(str(path), media_type="image/tiff; application=geotiff", roles=["data"])
                asset.extra_fields |= {
                    "proj:shape": [side, side],
                    "proj:transform": [resolution, 0, left, 0, -resolution, TOP],
                    "raster:bands": [{"nodata": 0, "data_type": "uint16"}],
                }
                item.add_asset(band, asset)
            made.append(item)
    return made


def saved(folder, found, name="items.json"):
    (folder / name).write_text(json.dumps(pystac.ItemCollection(found).to_dict()))
    return str(folder / name)
