// How samples become colours: what an image's metadata say of its bands, and the style that the graphics card runs.

const INKS = ['cyan', 'magenta', 'yellow', 'black'];
const PRIMARIES = {red: 'ff0000', green: '00ff00', blue: '0000ff'};
const WHEEL = ['00ff00', 'ff00ff', '00ffff', 'ffff00', 'ff0000', '0000ff', 'ffffff', 'ff8000'];
const MOST_CHANNELS = 8;
const MOST_PALETTE = 4096;
const LIMITS = {bool: [0, 1], uint8: [0, 255], int8: [-128, 127], uint16: [0, 65535], int16: [-32768, 32767]};

export const RAMPS = {
  grey: ['#000000', '#ffffff'],
  'grey, white first': ['#ffffff', '#000000'],
  viridis: ['#440154', '#3b528b', '#21918c', '#5ec962', '#fde725'],
  magma: ['#000004', '#51127c', '#b73779', '#fc8961', '#fcfdbf'],
  terrain: ['#2b5d8c', '#5a9e6f', '#c9c184', '#a5744a', '#ffffff'],
};

// Percentiles that become the ends of the range; null for the range of the type.
export const STRETCHES = {
  'as-is': {label: 'as it is', percents: null},
  'min-max': {label: 'min – max', percents: [0, 100]},
  '2-98': {label: '2 – 98 %', percents: [2, 98]},
  '0.1-99.9': {label: '0.1 – 99.9 %', percents: [0.1, 99.9]},
};

// Which ways of showing an image there are, the one that its metadata ask for first.
export function modesOf(image) {
  const {channels, attributes} = image;
  const role = (name) => channels.find((one) => one.role === name)?.index;
  const alpha = role('alpha');
  const modes = [];
  const table = attributes.color_table;
  if (Array.isArray(table) && table.length && table.length <= MOST_PALETTE) modes.push({kind: 'palette', name: 'Palette', bands: [0], table});
  if (INKS.every((ink, index) => channels[index]?.role === ink)) modes.push({kind: 'inks', name: 'Inks', bands: [0, 1, 2, 3]});
  const told = channels.length > 1 && channels.some(({color}) => color);
  const many = {kind: 'channels', name: 'Channels', bands: channels.slice(0, MOST_CHANNELS).map(({index}) => index)};
  if (told) modes.push(many);
  const roles = ['red', 'green', 'blue'].map(role);
  const colours = roles.every((index) => index !== undefined) ? roles : namedColours(channels);
  const hasColours = colours !== null;
  const rgb = {kind: 'rgb', name: 'Red, green, blue', bands: hasColours ? colours : [0, 1, 2], alpha};
  if (hasColours) modes.push(rgb);
  const first = channels.find((one) => one.role !== 'alpha') ?? channels[0];
  modes.push({kind: 'one', name: 'One band', bands: [first.index], alpha});
  if (!hasColours && channels.length > 2) modes.push(rgb);
  if (!told && channels.length > 1 && image.names[image.channel] === 'c') modes.push(many);
  return modes;
}

// Bands by their common names, or by the numbers of Sentinel-2 and Landsat 8: red is band 4, green 3, blue 2.
const NAMED = [/^(red|(.*[^a-z0-9])?b0?4([^0-9].*)?)$/i, /^(green|(.*[^a-z0-9])?b0?3([^0-9].*)?)$/i, /^(blue|(.*[^a-z0-9])?b0?2([^0-9].*)?)$/i];

function namedColours(channels) {
  const found = NAMED.map((name) => channels.filter((channel) => name.test(channel.name)));
  return found.every((some) => some.length === 1) ? found.map(([{index}]) => index) : null;
}

export function colourOf(mode, image, position) {
  if (mode.kind === 'rgb') return Object.values(PRIMARIES)[position];
  if (mode.kind === 'one') return 'ffffff';
  const {color, index} = image.channels[mode.bands[position]];
  const isTold = /^[0-9a-fA-F]{6}$/.test(color ?? '');
  // writers that know no colours say white for each channel, which would hide them all in one another
  const isOfItsOwn = image.channels.length === 1 || image.channels.some((other) => other.color !== color);
  return isTold && isOfItsOwn ? color : WHEEL[index % WHEEL.length];
}

export function bandName({index, role, name}, count) {
  const shown = name || (['gray', 'undefined', undefined].includes(role) ? '' : role);
  return count > 1 ? `${index + 1}${shown ? ` · ${shown}` : ''}` : shown || 'the only band';
}

// The range of an image's type, where its samples are shown as they are.
export function asItIs(image) {
  return LIMITS[image.dtype] ?? null;
}

// The stretch that an image begins with: bytes as they are, others by percentiles.
export function firstStretch(image) {
  return ['uint8', 'bool'].includes(image.dtype) ? 'as-is' : '2-98';
}

// A channel's own window, where it says more than its type does.
export function windowOf(image, channel) {
  const {start, end} = channel.window ?? {};
  const limits = asItIs(image);
  if (!Number.isFinite(start) || !Number.isFinite(end) || end <= start) return null;
  return limits && start <= limits[0] && end >= limits[1] ? null : [start, end];
}

const clamped = (band, low, high) => ['clamp', ['/', ['-', ['band', band], ['var', low]], ['-', ['var', high], ['var', low]]], 0, 1];
const total = (terms) => (terms.length > 1 ? ['clamp', ['+', ...terms], 0, 1] : terms[0]);

// The style of OpenLayers' tile layer for a mode.  What changes often is variables, so that no tile is asked for anew.
export function styleOf(mode, image, ramp, opacityMost) {
  const count = mode.bands.length;
  const alpha = mode.alpha === undefined ? 1 : ['clamp', ['/', ['band', count + 1], opacityMost], 0, 1];
  if (mode.kind === 'palette') return {color: ['palette', ['clamp', ['band', 1], 0, mode.table.length - 1], mode.table.map(paletteColour)]};
  if (mode.kind === 'inks') {
    const light = (band) => ['-', 1, clamped(band, `low${band - 1}`, `high${band - 1}`)];
    return {color: ['array', ...[1, 2, 3].map((band) => ['*', light(band), light(4)]), alpha]};
  }
  if (mode.kind === 'one') {
    const colours = RAMPS[ramp];
    const at = colours.map((colour, index) => [index / (colours.length - 1), colour]).flat();
    const shade = (part) => at.map((value) => (typeof value === 'string' ? parseInt(value.slice(1 + 2 * part, 3 + 2 * part), 16) / 255 : value));
    return {color: ['array', ...[0, 1, 2].map((part) => ['interpolate', ['linear'], clamped(1, 'low0', 'high0'), ...shade(part)]), alpha]};
  }
  const light = mode.bands.map((_, position) => clamped(position + 1, `low${position}`, `high${position}`));
  const part = (name) => total(light.map((its, position) => ['*', its, ['var', `${name}${position}`]]));
  return {color: ['array', part('red'), part('green'), part('blue'), alpha]};
}

function paletteColour([red, green, blue, alpha = 255]) {
  return `rgba(${red},${green},${blue},${alpha / 255})`;
}

export function variablesOf(shown) {
  const variables = {};
  shown.forEach(({low, high, color, on}, position) => {
    variables[`low${position}`] = low;
    variables[`high${position}`] = high > low ? high : low + 1e-6;
    ['red', 'green', 'blue'].forEach((name, part) => {
      variables[`${name}${position}`] = on ? parseInt(color.slice(2 * part, 2 * part + 2), 16) / 255 : 0;
    });
  });
  return variables;
}
