"""pystac and its validator, with the schemas that are here in place of those of the network."""

import json
from importlib.resources import files
from pathlib import Path

import jsonschema
import pystac
from pystac.validation.stac_validator import JsonSchemaSTACValidator

SCHEMAS = Path(__file__).parent / "stac_schemas"
BASE = "https://stac-extensions.github.io"
PROJJSON = json.loads(files("pyproj").joinpath("proj_dir/share/proj/projjson.schema.json").read_text())

NUMBER = {"type": "number"}
RASTER = {
    "raster:bits_per_sample": {"type": "integer"},
    "raster:sampling": {"enum": ["area", "point"]},
    "raster:scale": NUMBER,
    "raster:offset": NUMBER,
    "raster:spatial_resolution": NUMBER,
}
COLOURS = "pan coastal blue green green05 yellow red rededge rededge071 rededge075 rededge078 nir nir08 nir09 cirrus"
EO = {
    "eo:cloud_cover": {"type": "number", "minimum": 0, "maximum": 100},
    "eo:common_name": {"enum": [*COLOURS.split(), "swir16", "swir22", "lwir", "lwir11", "lwir12"]},
}


def fields_of(url, fields):
    """Return a schema by which an extension's fields, those of it alone, stand in properties, assets and bands."""
    prefix = next(iter(fields)).partition(":")[0]
    own = {"properties": fields, "patternProperties": {f"^(?!{prefix}:)": {}}, "additionalProperties": False}
    banded = {"allOf": [own, {"properties": {"bands": {"items": own}}}]}
    members = {"properties": banded, "assets": {"additionalProperties": banded}}
    members["item_assets"] = members["assets"]
    return {"$id": url, "$schema": "http://json-schema.org/draft-07/schema#", "properties": members}


def validator():
    found = JsonSchemaSTACValidator()
    for path in SCHEMAS.glob("*.json"):
        name, _, version = path.stem.rpartition("-")
        found.schema_cache[f"{BASE}/{name}/{version}/schema.json"] = json.loads(path.read_text())
    for name, fields in (("raster", RASTER), ("eo", EO)):
        url = f"{BASE}/{name}/v2.0.0/schema.json"
        found.schema_cache[url] = fields_of(url, fields)
    for version in ("v0.4", "v0.7"):
        url = f"https://proj.org/schemas/{version}/projjson.schema.json"
        found.schema_cache[url] = PROJJSON | {"$id": url}
    return found


VALIDATOR = validator()


def validated(document):
    """Return an item or collection as pystac reads it, all its schemas being kept, formats too."""
    found = pystac.read_dict(json.loads(json.dumps(document)))
    used = found.validate(validator=VALIDATOR)
    assert set(document["stac_extensions"]) <= set(used)
    core = next(uri for uri in used if "stacspec" in uri)
    formats = jsonschema.Draft7Validator.FORMAT_CHECKER
    jsonschema.Draft7Validator(
        VALIDATOR.schema_cache[core], registry=VALIDATOR.registry, format_checker=formats
    ).validate(document)
    return found
