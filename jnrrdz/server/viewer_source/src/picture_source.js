// OpenLayers' GeoZarr source for what jnrrdz serves: bands are indices of one array, pixels may be rotated or not
// square, and pictures without a place have their own rows and columns as a map.
//
// The base class reads the multiscales, proj: and spatial: conventions.  It takes each band for an array of its own
// and each pixel for a square with north up, so that tiles are put together here, by each level's affine.

import GeoZarr from 'ol/source/GeoZarr.js';
import Projection from 'ol/proj/Projection.js';
import TileGrid from 'ol/tilegrid/TileGrid.js';
import {addProjection, get as getProjection} from 'ol/proj.js';
import {register} from 'ol/proj/proj4.js';
import proj4 from 'proj4';

import {METRES} from './dataset.js';

const TILE = 256;
const WIDEST = 4096; // rows or columns of a level that one tile may need: more would freeze the page

// The projection of an image: that of its CRS, or its own rows and columns, with the size of a pixel where it is known.
export function projectionFor(image) {
  if (image.isPlaced) return projectionOf(image.crs);
  image.projection ??= new Projection({code: 'pixels', units: 'pixels', metersPerUnit: pixelSize(image) ?? undefined});
  return image.projection;
}

// Metres from pixel to pixel along a row; null where an image has no such size.
export function pixelSize({axes, x}) {
  const metres = METRES[axes[x].unit];
  return metres ? metres * axes[x].spacing : null;
}

// The projection of a CRS, defined from the file's own WKT: nothing is looked up elsewhere.
export function projectionOf({code, wkt}) {
  const name = code ?? `WKT:${wkt}`;
  const known = getProjection(name);
  if (known) return known;
  try {
    proj4.defs(name, wkt);
    register(proj4);
  } catch {
    // proj4 does not know every method.  Where pixels lie needs no method, only longitudes and latitudes do.
  }
  if (!getProjection(name)) addProjection(new Projection({code: name, units: 'm'}));
  return getProjection(name);
}

export default class PictureSource extends GeoZarr {
  // `planes` has, for each band of the tiles, the index of every axis that is neither rows nor columns.
  constructor(image, samples, planes) {
    const url = [image.url, image.group].filter(Boolean).join('/');
    super({url, bands: [image.variable ?? ''], transition: 0});
    this.image = image;
    this.samples = samples;
    this.planes = planes;
    this.onFailure = () => {};
    this.setLoader(this.readTile.bind(this));
  }

  async configure_() {
    await null; // the base class calls this before the fields above are set
    const {image} = this;
    const projection = projectionFor(image);
    if (image.isPlaced && image.conventions && image.crs.code) await super.configure_();
    if (!this.tileGrid || this.tileGrid.getResolutions().length !== image.levels.length) this.tileGrid = ownGrid(image);
    this.projection = projection;
    this.bandCount = this.planes.length + 1;
    this.nodataBandIndex = this.bandCount; // samples that are nodata, or outside of the picture, are not drawn
  }

  // The finest level of which no more than a sample for each pixel of the tile is needed.
  levelFor(resolution) {
    const {image} = this;
    const steps = image.levels.map(({affine: [a, , , d]}) => Math.hypot(a, d));
    const nearest = steps.reduce((best, step, index) => (Math.abs(Math.log(step / resolution)) < Math.abs(Math.log(steps[best] / resolution)) ? index : best), 0);
    const wanted = this.fixedLevel ?? nearest;
    return (TILE * resolution) / steps[wanted] > WIDEST ? nearest : wanted;
  }

  async readTile(z, x, y) {
    const resolution = this.tileGrid.getResolution(z);
    const index = this.levelFor(resolution);
    try {
      return await this.tile(this.image.levels[index], this.tileGrid.getTileCoordExtent([z, x, y]), resolution);
    } catch (error) {
      this.onFailure(error);
      throw error;
    }
  }

  async tile(level, extent, resolution) {
    const {image} = this;
    const toSource = inverse(level.affine);
    const rows = level.shape[image.y];
    const columns = level.shape[image.x];
    const window = windowOf(toSource, extent, rows, columns);
    const bands = this.planes.length;
    const data = new Float32Array(TILE * TILE * (bands + 1));
    if (!window) return data;
    const planes = await Promise.all(this.planes.map((fixed) => this.samples.window(level, image, fixed, window)));
    const [a, b, c, d, e, f] = toSource;
    for (let down = 0, out = 0; down < TILE; down++) {
      for (let across = 0; across < TILE; across++, out += bands + 1) {
        const [u, v] = [extent[0] + (across + 0.5) * resolution, extent[3] - (down + 0.5) * resolution];
        const column = Math.floor(a * u + b * v + c);
        const row = Math.floor(d * u + e * v + f);
        if (row < 0 || column < 0 || row >= rows || column >= columns) continue;
        let isData = 0;
        for (let band = 0; band < bands; band++) {
          const value = planes[band](row, column);
          if (Number.isNaN(value) || value === image.nodata) continue;
          data[out + band] = value;
          if (band < (this.colours ?? bands)) isData = 1;
        }
        data[out + bands] = isData;
      }
    }
    return data;
  }
}

function ownGrid({extent, levels}) {
  const resolutions = levels.map(({affine: [a, , , d]}) => Math.hypot(a, d)).sort((one, other) => other - one);
  return new TileGrid({extent, origin: [extent[0], extent[3]], resolutions, tileSize: TILE});
}

export function inverse([a, b, c, d, e, f]) {
  const area = a * e - b * d;
  return [e / area, -b / area, (b * f - c * e) / area, -d / area, a / area, (c * d - a * f) / area];
}

// Rows and columns that an extent covers; null where none.
function windowOf([a, b, c, d, e, f], [west, south, east, north], rows, columns) {
  const corners = [[west, south], [west, north], [east, south], [east, north]];
  const across = corners.map(([u, v]) => a * u + b * v + c);
  const down = corners.map(([u, v]) => d * u + e * v + f);
  const clip = (values, size) => [Math.max(Math.floor(Math.min(...values)), 0), Math.min(Math.ceil(Math.max(...values)), size)];
  const [left, right] = clip(across, columns);
  const [top, bottom] = clip(down, rows);
  return left < right && top < bottom ? [top, left, bottom, right] : null;
}
