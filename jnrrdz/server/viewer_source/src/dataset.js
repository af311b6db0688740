// What a served Zarr hierarchy holds: images with their levels, axes, channels, colours and place.
//
// All of it stands in the consolidated metadata of the root: one request.  Levels are told by the multiscales
// convention or by OME-Zarr 0.5; an array that no group claims as a level is an image of one level.

const BAND_NAMES = ['band', 's', 'sample', 'c', 'channel'];

// What is not to be shown, and what to do instead.
export class Refused extends Error {
  constructor(reason, advice = 'The server says so; jnrrdz info tells more of the file.') {
    super(reason);
    this.advice = advice;
  }
}

// Units of lengths.
export const METRES = {nm: 1e-9, nanometer: 1e-9, µm: 1e-6, um: 1e-6, μm: 1e-6, micrometer: 1e-6, mm: 1e-3, millimeter: 1e-3, cm: 1e-2, centimeter: 1e-2, m: 1, meter: 1, Å: 1e-10, angstrom: 1e-10};

export async function openDataset(url) {
  const answer = await fetch(`${url}/zarr.json`);
  if (!answer.ok) throw new Refused(`${answer.status}: ${(await answer.text()).trim()}`);
  const root = await answer.json();
  const below = root.consolidated_metadata?.metadata ?? {};
  const nodes = new Map([['', root], ...Object.entries(below).sort(([a], [b]) => (a < b ? -1 : 1))]);
  return {url, nodes, images: imagesOf(url, nodes)};
}

const join = (...parts) => parts.filter(Boolean).join('/');
const parentOf = (path) => path.slice(0, Math.max(path.lastIndexOf('/'), 0));
const isPicture = (node) => node?.node_type === 'array' && node.shape.length >= 2 && node.shape.every((size) => size > 0);

function imagesOf(url, nodes) {
  const claimed = new Set();
  const images = [];
  const claim = (group, paths, extra) => {
    const levels = paths.filter((path) => isPicture(nodes.get(path)));
    if (!levels.length || levels.some((path) => claimed.has(path))) return;
    levels.forEach((path) => claimed.add(path));
    images.push(describe(url, nodes, group, levels, extra));
  };
  for (const [path, node] of nodes) {
    if (node.node_type !== 'group') continue;
    const layout = layoutOf(node.attributes);
    for (const variable of variablesOf(nodes, path, layout)) {
      const paths = layout.map(({asset}) => join(path, asset, variable));
      claim(path, paths, {layout, variable, scale: omeOf(node, path, paths[0])});
    }
    for (const scale of omeImages(node)) {
      claim(path, scale.datasets.map((level) => join(path, level.path)), {scale});
    }
  }
  for (const [path, node] of nodes) {
    if (isPicture(node) && !claimed.has(path)) claim(parentOf(path), [path], {variable: path.slice(path.lastIndexOf('/') + 1)});
  }
  const isLabels = ({path}) => path.split('/').some((name) => LABELS.test(name));
  return images.sort((a, b) => isLabels(a) - isLabels(b) || a.order - b.order);
}

// Names of arrays and groups that describe an image and are not the image: they come last, as in core/hierarchy.py.
const LABELS = /^(labels?|masks?|seg(mentation)?s?|ground_?truth|gt|predictions?|annotations?)$/i;

// The levels that a group lists; a list of another form is another convention's and ignored as a whole.
function layoutOf(attributes) {
  const layout = attributes?.multiscales?.layout;
  return Array.isArray(layout) && layout.every((level) => typeof level?.asset === 'string') ? layout : [];
}

function omeImages(node) {
  const images = node.attributes?.ome?.multiscales;
  const isRead = (image) => Array.isArray(image?.datasets) && image.datasets.every((level) => typeof level?.path === 'string');
  return Array.isArray(images) ? images.filter(isRead) : [];
}

// What OME-Zarr says of the same levels, where it says something.
function omeOf(node, group, finest) {
  return omeImages(node).find(({datasets}) => join(group, datasets[0]?.path) === finest);
}

// Names of the arrays that the finest level of a layout has; '' where a level is an array itself.
function variablesOf(nodes, group, layout) {
  if (!layout.length) return [];
  const finest = join(group, layout[0].asset);
  if (isPicture(nodes.get(finest))) return [''];
  return [...nodes.keys()]
    .filter((path) => path.startsWith(`${finest}/`) && !path.slice(finest.length + 1).includes('/') && isPicture(nodes.get(path)))
    .map((path) => path.slice(finest.length + 1));
}

function describe(url, nodes, group, paths, {layout, scale, variable}) {
  const node = nodes.get(paths[0]);
  const names = node.dimension_names?.map(String) ?? node.shape.map((_, axis) => `axis ${axis}`);
  const has = names.includes('y') && names.includes('x');
  const [y, x] = has ? [names.lastIndexOf('y'), names.lastIndexOf('x')] : [names.length - 2, names.length - 1];
  const rest = names.map((_, axis) => axis).filter((axis) => axis !== y && axis !== x);
  const channel = BAND_NAMES.map((name) => rest.find((axis) => names[axis] === name)).find((axis) => axis !== undefined) ?? -1;
  const attributes = node.attributes ?? {};
  const above = nodes.get(group)?.attributes ?? {};
  const around = nodes.get(parentOf(paths[0]))?.attributes ?? {};
  const levels = paths.map((path) => ({path, shape: nodes.get(path).shape, chunks: nodes.get(path).chunk_grid.configuration.chunk_shape}));
  const image = {
    url,
    group,
    variable,
    path: paths[0],
    label: labelOf(group, paths[0], variable, above, scale),
    order: [...nodes.keys()].indexOf(paths[0]),
    levels,
    names,
    y,
    x,
    channel,
    sliders: rest.filter((axis) => axis !== channel && node.shape[axis] > 1),
    shape: node.shape,
    dtype: node.data_type,
    nodata: noData(attributes._FillValue ?? attributes.missing_value, node.data_type),
    attributes,
    axes: physicalAxes(names, attributes, scale),
    coordinates: names.map((name, axis) => coordinateOf(nodes, parentOf(paths[0]), name, node.shape[axis])),
    date: dateOf(nodes, paths[0]),
    marking: markingOf(nodes, paths[0]),
    isOme: Boolean(scale) && above.ome?.multiscales?.length === 1,
    channels: channelsOf(node, channel, attributes, above.omero ?? above.ome?.omero),
    crs: crsOf(nodes, parentOf(paths[0]), above, around),
    conventions: Boolean(above['spatial:bbox'] && (above['proj:code'] || above['proj:wkt2'] || above['proj:projjson'])),
  };
  placeLevels(image, layout ?? [], around);
  return image;
}

function labelOf(group, path, variable, above, scale) {
  const place = variable && variable !== 'data' ? join(group, variable) : group || (variable ? '' : path);
  const title = scale?.name ?? above.nitf?.IID2 ?? above.nitf?.IID1;
  return [place, title === place ? '' : title].filter(Boolean).join(' — ') || 'image';
}

// `_FillValue` as a number; xarray spells that of floats as base64 of a double.  NaN is nodata anyhow.
function noData(value, type) {
  let number = Array.isArray(value) && value.length === 1 ? value[0] : value;
  if (typeof number === 'string') number = doubleOf(number);
  if (typeof number !== 'number' || !Number.isFinite(number)) return null;
  return type === 'float32' ? Math.fround(number) : number;
}

function doubleOf(text) {
  try {
    const bytes = Uint8Array.from(atob(text), (byte) => byte.charCodeAt(0));
    return bytes.length === 8 ? new DataView(bytes.buffer).getFloat64(0, true) : NaN;
  } catch {
    return NaN; // no base64: "NaN" among others
  }
}

// Steps and units of axes: the `axes` attribute, the vectors of an oblique volume, or OME-Zarr's scale.
function physicalAxes(names, attributes, scale) {
  const steps = scale?.datasets?.[0]?.coordinateTransformations?.find((one) => one.type === 'scale')?.scale;
  const vectors = attributes['jnrrdz:space']?.directions ?? {};
  return names.map((name, axis) => {
    const own = attributes.axes?.[name] ?? {};
    const ome = scale?.axes?.[axis];
    const along = Array.isArray(vectors[name]) ? Math.hypot(...vectors[name]) : undefined;
    const step = [own.step, along, steps?.[axis]].find((one) => Number.isFinite(one) && one !== 0) ?? 1;
    return {name, step, spacing: Math.abs(step), start: own.start ?? 0, unit: own.unit ?? ome?.unit ?? '', labels: own.labels};
  });
}

// The array of the places along an axis: it has the axis's name, in the image's group or one above it.
function coordinateOf(nodes, group, name, size) {
  for (let at = group; ; at = parentOf(at)) {
    const path = join(at, name);
    const node = nodes.get(path);
    if (node?.node_type === 'array' && node.shape.length === 1 && node.shape[0] === size) {
      const {units = '', calendar = 'standard'} = node.attributes ?? {};
      return {path, units: String(units), calendar: String(calendar)};
    }
    if (!at) return null;
  }
}

// The attributes of an array, then of the groups above it: the nearest comes first.
function* attributesAbove(nodes, path) {
  for (let at = path; ; at = parentOf(at)) {
    yield nodes.get(at)?.attributes ?? {};
    if (!at) return;
  }
}

// When an image was taken, as text; NITF has CCYYMMDDhhmmss, with hyphens for what is not known.
function dateOf(nodes, path) {
  for (const {datetime, nitf} of attributesAbove(nodes, path)) {
    if (typeof datetime === 'string') return datetime;
    const date = nitf?.IDATIM;
    if (typeof date !== 'string' || !date.replace(/[\s-]/g, '')) continue;
    const known = /^\d{8}/.test(date) && /^[\d-]{14}$/.test(date) ? date.split('-')[0] : '';
    if (known.length < 8) return date.trim();
    const clock = [known.slice(8, 10), known.slice(10, 12), known.slice(12, 14)].filter(Boolean).join(':');
    return `${known.slice(0, 4)}-${known.slice(4, 6)}-${known.slice(6, 8)}${clock && `T${clock}Z`}`;
  }
  return null;
}

const CLASSES = {U: 'UNCLASSIFIED', R: 'RESTRICTED', C: 'CONFIDENTIAL', S: 'SECRET', T: 'TOP SECRET'};

// The highest classification of a NITF's file and of the image, with its codewords and handling; null where there is none.
function markingOf(nodes, path) {
  let highest = null;
  for (const {security} of attributesAbove(nodes, path)) {
    for (const prefix of ['FS', 'IS']) {
      const level = String(security?.[`${prefix}CLAS`] ?? '').trim();
      if (!(level in CLASSES)) continue;
      const rank = Object.keys(CLASSES).indexOf(level);
      const words = ['CODE', 'CTLH'].map((name) => String(security[`${prefix}${name}`] ?? '').trim());
      if (!highest || rank > highest.rank) highest = {level, rank, words: new Set()};
      if (rank === highest.rank) words.filter(Boolean).forEach((word) => highest.words.add(word));
    }
  }
  return highest && {level: highest.level, text: [CLASSES[highest.level], ...highest.words].join('//')};
}

function channelsOf(node, axis, attributes, omero) {
  const count = axis < 0 ? 1 : node.shape[axis];
  const labels = attributes.axes?.[node.dimension_names?.[axis]]?.labels;
  return Array.from({length: count}, (_, index) => {
    const told = omero?.channels?.[index];
    const roles = attributes.colorinterp ?? [];
    const role = roles[index] ?? (count > 1 ? undefined : roles[0]);
    const name = told?.label ?? labels?.[index] ?? attributes.band_names?.[index] ?? '';
    return {index, role, name: String(name || ''), color: told?.color, window: told?.window, active: told?.active ?? true};
  });
}

// The CRS by code and by definition: no definition is asked for from anywhere else.
function crsOf(nodes, level, above, around) {
  const variable = nodes.get(join(level, 'spatial_ref')) ?? nodes.get('spatial_ref');
  const code = around['proj:code'] ?? above['proj:code'] ?? null;
  const wkt = variable?.attributes?.crs_wkt ?? around['proj:wkt2'] ?? above['proj:wkt2'] ?? null;
  return code || wkt ? {code, wkt} : null;
}

// Each level's affine from columns and rows to the map; without one, to columns and rows of the finest level.
function placeLevels(image, layout, around) {
  const own = around['spatial:transform'] ?? layout[0]?.['spatial:transform'];
  image.isPlaced = Boolean(image.crs && own?.length >= 6);
  const finest = image.levels[0];
  const base = image.isPlaced ? own : [1, 0, 0, 0, -1, 0];
  image.levels.forEach((level) => {
    const told = layout.find(({asset}) => join(image.group, asset, image.variable) === level.path)?.['spatial:transform'];
    const across = finest.shape[image.x] / level.shape[image.x];
    const down = finest.shape[image.y] / level.shape[image.y];
    const [a, b, c, d, e, f] = base;
    level.affine = (image.isPlaced && told) || [a * across, b * down, c, d * across, e * down, f];
  });
  image.extent = extentOf(image);
}

function extentOf({levels: [level], x, y}) {
  const [a, b, c, d, e, f] = level.affine;
  const [columns, rows] = [level.shape[x], level.shape[y]];
  const corners = [[0, 0], [columns, 0], [0, rows], [columns, rows]].map(([i, j]) => [a * i + b * j + c, d * i + e * j + f]);
  const [xs, ys] = [corners.map(([its]) => its), corners.map(([, its]) => its)];
  return [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
}

// Sample types that a browser has numbers for; complex ones have two.
export const isDrawn = ({dtype}) => /^(bool|u?int\d+|float(16|32|64))$/.test(dtype);

// Whether cross-sections say more than a plane: another axis of space has some depth.
export function isVolume(image) {
  return depthAxis(image) >= 0;
}

export function depthAxis(image) {
  const named = image.sliders.find((axis) => image.names[axis] === 'z');
  if (named !== undefined) return named;
  const unknown = image.sliders.filter((axis) => !['t', 'time'].includes(image.names[axis]));
  return image.channel < 0 && image.names.length === 3 && unknown.length ? unknown[0] : -1;
}
