// Cross-sections of a volume, by neuroglancer in a frame: its state is the part of the address behind #!.

import {element} from './dom.js';
import {asItIs, colourOf, modesOf} from './colours.js';
import {percentile, sampled} from './samples.js';
import {METRES, depthAxis} from './dataset.js';

const READ = new Set(['uint8', 'int8', 'uint16', 'int16', 'uint32', 'int32', 'uint64', 'float32']);

export const canShow = (image) => READ.has(image.dtype);

// Each axis as neuroglancer has it: the spacing and its unit; the channels are local to a layer, which the ' says.
function dimensionsOf(image) {
  return Object.fromEntries(
    image.names.map((name, axis) => {
      const {spacing, unit} = image.axes[axis];
      const metres = METRES[unit];
      if (axis === image.channel) return [`${name}'`, [1, '']];
      return [name, metres ? [spacing * metres, 'm'] : [spacing, '']];
    }),
  );
}

// OME-Zarr says all levels and their scales; of an array alone the scales are said here.
function sourceOf(image, dimensions) {
  if (image.isOme) return `${[image.url, image.group].filter(Boolean).join('/')}/|zarr3:`;
  const inputDimensions = Object.fromEntries(Object.values(dimensions).map((its, axis) => [image.names[axis], its]));
  return {url: `${image.url}/${image.path}/|zarr3:`, transform: {inputDimensions, outputDimensions: dimensions}};
}

// The state that opens an image: a layer for each channel in its colour and range.
export function stateOf(image, ranges = [], panel = PANEL) {
  const dimensions = dimensionsOf(image);
  const names = Object.keys(dimensions);
  const local = image.channel < 0 ? {} : {[names[image.channel]]: dimensions[names[image.channel]]};
  const source = sourceOf(image, dimensions);
  const mode = modesOf(image)[0];
  const bands = image.channel < 0 ? [0] : mode.bands;
  const isLabels = image.channel < 0 && ['uint32', 'uint64'].includes(image.dtype);
  const layers = bands.map((band, position) => ({
    type: isLabels ? 'segmentation' : 'image',
    name: image.channels[band]?.name || (bands.length > 1 ? `channel ${band + 1}` : image.label),
    source,
    ...(image.channel < 0 ? {} : {localDimensions: local, localPosition: [band]}),
    blend: 'additive',
    opacity: 1,
    shader: '#uicontrol vec3 color color\n#uicontrol invlerp normalized\nvoid main() { emitRGB(color * normalized()); }',
    shaderControls: {
      color: `#${colourOf({...mode, bands}, image, position)}`,
      ...(ranges[position] ? {normalized: {range: ranges[position]}} : {}),
    },
  }));
  const shown = names.filter((_, axis) => axis !== image.channel);
  const depth = depthAxis(image);
  const axes = [image.x, image.y, ...(depth < 0 ? [] : [depth])];
  const planes = axes.map((axis) => names[axis]);
  return {
    dimensions: Object.fromEntries(shown.map((name) => [name, dimensions[name]])),
    position: shown.map((name) => (planes.includes(name) ? Math.floor(image.shape[names.indexOf(name)] / 2) + 0.5 : 0.5)),
    displayDimensions: planes,
    layers,
    layout: depth < 0 ? 'xy' : '4panel-alt',
    crossSectionBackgroundColor: '#0b0c0e',
    crossSectionScale: scaleThatFits(image, axes) / panel,
    projectionScale: 2 * scaleThatFits(image, axes),
  };
}

const PANEL = 300;
const BARS = 60; // rows of pixels that are no panel's

// The longest axis in voxels of the finest one.
function scaleThatFits(image, planes) {
  const step = (axis) => image.axes[axis].spacing * (METRES[image.axes[axis].unit] ?? 1);
  const finest = Math.min(...planes.map(step));
  return Math.max(...planes.map((axis) => (image.shape[axis] * step(axis)) / finest));
}

async function rangesOf(samples, image) {
  const mode = modesOf(image)[0];
  const bands = image.channel < 0 ? [0] : mode.bands;
  return Promise.all(
    bands.map(async (band) => {
      const fixed = image.shape.map((size, axis) => (axis === image.channel ? band : image.names[axis] === 't' ? 0 : size >> 1));
      const values = await sampled(samples, image, fixed);
      const [low, high] = [percentile(values, 0), percentile(values, 99.8)];
      if (!(high > low)) return asItIs(image);
      return [low, high];
    }),
  );
}

export default class Volume {
  constructor(image, samples) {
    Object.assign(this, {image, samples});
    this.frame = element('iframe', {title: 'neuroglancer'});
    this.element = element('div', {className: 'volume'}, this.frame);
  }

  async show() {
    const panel = Math.max(Math.min(this.frame.clientWidth, this.frame.clientHeight - BARS) / 2 - 20, 100);
    const state = stateOf(this.image, await rangesOf(this.samples, this.image), panel);
    const page = new URL('viewer/neuroglancer/index.html', document.baseURI.split('#')[0]);
    page.hash = `!${JSON.stringify(state)}`;
    const loaded = new Promise((resolve) => (this.frame.onload = resolve));
    this.frame.src = page.href;
    await loaded;
    document.body.dataset.state = 'ready';
  }

  close() {
    this.frame.remove();
  }
}
