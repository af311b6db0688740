// Samples of served arrays, by zarrita.  Decoded chunks are kept: neighbouring tiles and bands ask for the same ones.

import * as zarr from 'zarrita';

const KEPT = 256 << 20;

export class Samples {
  constructor(url) {
    this.url = url;
    this.store = new zarr.FetchStore(url);
    this.root = zarr.root(this.store);
    this.arrays = new Map();
    this.chunks = new Map();
    this.nbytes = 0;
  }

  array(path) {
    if (!this.arrays.has(path)) this.arrays.set(path, zarr.open.v3(this.root.resolve(path), {kind: 'array'}));
    return this.arrays.get(path);
  }

  // A decoded chunk with its strides; who asks while it is fetched gets the same promise.
  chunk(path, index) {
    const key = `${path}/c/${index.join('/')}`;
    const kept = this.chunks.get(key);
    if (kept) {
      this.chunks.delete(key);
      this.chunks.set(key, kept);
      return kept.promise;
    }
    const entry = {nbytes: 0};
    entry.promise = this.fetched(path, index, entry).catch(async (error) => {
      this.chunks.delete(key);
      throw new Error((await this.refusal(key)) ?? `${key}: ${reasonOf(error)}`, {cause: error});
    });
    this.chunks.set(key, entry);
    return entry.promise;
  }

  // Why the server has no chunk, in its own words: zarrita tells its status alone.
  async refusal(key) {
    const answer = await fetch(`${this.url}/${key}`);
    return answer.status < 500 && answer.status !== 409 ? null : `${key}: ${(await answer.text()).trim()}`;
  }

  async fetched(path, index, entry) {
    const array = await this.array(path);
    const {data, stride} = await array.getChunk(index);
    entry.nbytes = data.byteLength ?? data.length;
    this.nbytes += entry.nbytes;
    for (const [key, old] of this.chunks) {
      if (this.nbytes <= KEPT) break;
      if (old === entry || !old.nbytes) continue;
      this.chunks.delete(key);
      this.nbytes -= old.nbytes;
    }
    return {at: reader(data), stride};
  }

  // A window of one plane as a function of row and column; `plane` has the index of each other axis, in the finest
  // level: coarser ones may have fewer depths.
  async window(level, {x, y, shape}, plane, [top, left, bottom, right]) {
    const fixed = plane.map((at, axis) => Math.floor((at * level.shape[axis]) / shape[axis]));
    const [high, wide] = [level.chunks[y], level.chunks[x]];
    const first = [Math.floor(top / high), Math.floor(left / wide)];
    const count = [Math.ceil(bottom / high) - first[0], Math.ceil(right / wide) - first[1]];
    const wanted = [];
    for (let row = 0; row < count[0]; row++) {
      for (let column = 0; column < count[1]; column++) {
        const index = fixed.map((at, axis) => Math.floor(at / level.chunks[axis]));
        index[y] = first[0] + row;
        index[x] = first[1] + column;
        wanted.push(this.chunk(level.path, index));
      }
    }
    const chunks = await Promise.all(wanted);
    const base = chunks.map(({stride}) =>
      stride.reduce((sum, step, axis) => (axis === x || axis === y ? sum : sum + (fixed[axis] % level.chunks[axis]) * step), 0),
    );
    return (row, column) => {
      const [down, across] = [Math.floor(row / high), Math.floor(column / wide)];
      const which = (down - first[0]) * count[1] + across - first[1];
      const {at, stride} = chunks[which];
      return at(base[which] + (row - down * high) * stride[y] + (column - across * wide) * stride[x]);
    };
  }
}

function reasonOf(error) {
  const inner = error.cause instanceof Error ? error.cause.message : '';
  return [error.message, inner].filter(Boolean).join(': ');
}

// What gives an element as a number, whichever kind of array zarrita made.
function reader(data) {
  if (data instanceof BigInt64Array || data instanceof BigUint64Array) return (index) => Number(data[index]);
  if (typeof data.get === 'function') return (index) => Number(data.get(index));
  return (index) => data[index];
}

const MOST_PLACES = 1 << 16;
const SECONDS = {microsecond: 1e-6, millisecond: 1e-3, second: 1, minute: 60, hour: 3600, day: 86400, nanosecond: 1e-9};
const CALENDARS = ['standard', 'gregorian', 'proleptic_gregorian'];

// The coordinate of each place along an axis as text: a date where its units count from one; null where it cannot be read.
export async function placesAlong(samples, {path, units, calendar}, size) {
  if (size > MOST_PLACES) return null;
  try {
    const {data} = await zarr.get(await samples.array(path));
    const at = reader(data);
    const values = Array.from({length: size}, (_, index) => at(index));
    return datesOf(values, units, calendar) ?? values.map((value) => (Number.isFinite(value) ? `${Number(value.toPrecision(9))} ${units}`.trim() : null));
  } catch {
    return null; // text, or a chunk that is not there: the places are numbered
  }
}

// Dates of CF, https://cfconventions.org/cf-conventions/cf-conventions.html#time-coordinate; null for what is none.
function datesOf(values, units, calendar) {
  const [, unit, origin] = units.match(/^(\w+?)s? since (.+)$/) ?? [];
  const start = Date.parse(/[zZ]|[+-]\d\d:?\d\d$/.test(origin) ? origin : `${String(origin).trim().replace(' ', 'T')}${/[T ]\d/.test(origin) ? '' : 'T00:00'}Z`);
  if (!(unit in SECONDS) || !Number.isFinite(start) || !CALENDARS.includes(calendar)) return null;
  const dates = values.map((value) => new Date(start + value * SECONDS[unit] * 1000));
  if (dates.some((date) => Number.isNaN(date.getTime()))) return null;
  const isDaily = dates.every((date) => date.getTime() % 86400000 === 0);
  return dates.map((date) => (isDaily ? date.toISOString().slice(0, 10) : date.toISOString().replace(/\.000Z$/, 'Z')));
}

const SAMPLED = 512;

// Sorted samples of a plane, from its coarsest level, at most 512 rows and columns of it.
export async function sampled(samples, image, fixed) {
  const level = image.levels.at(-1);
  const [rows, columns] = [level.shape[image.y], level.shape[image.x]];
  const [high, wide] = [Math.min(rows, SAMPLED), Math.min(columns, SAMPLED)];
  const [top, left] = [(rows - high) >> 1, (columns - wide) >> 1];
  const at = await samples.window(level, image, fixed, [top, left, top + high, left + wide]);
  const values = new Float64Array(high * wide);
  let count = 0;
  for (let row = top; row < top + high; row++) {
    for (let column = left; column < left + wide; column++) {
      const value = at(row, column);
      if (Number.isFinite(value) && value !== image.nodata) values[count++] = value;
    }
  }
  return values.subarray(0, count).sort();
}

export function percentile(sorted, percent) {
  return sorted.length ? sorted[Math.round((percent / 100) * (sorted.length - 1))] : NaN;
}
