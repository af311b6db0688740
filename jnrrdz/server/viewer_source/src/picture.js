// A picture on a map of its own CRS, or of its own rows and columns, with the controls beside it.

import Map from 'ol/Map.js';
import View from 'ol/View.js';
import WebGLTileLayer from 'ol/layer/WebGLTile.js';
import Graticule from 'ol/layer/Graticule.js';
import ScaleLine from 'ol/control/ScaleLine.js';
import Zoom from 'ol/control/Zoom.js';
import {defaults as interactions} from 'ol/interaction/defaults.js';
import {toLonLat, transformExtent} from 'ol/proj.js';
import {buffer, getCenter, getWidth} from 'ol/extent.js';
import Stroke from 'ol/style/Stroke.js';
import Fill from 'ol/style/Fill.js';
import Text from 'ol/style/Text.js';

import {choice, decimal, element, failure, section, slider, text} from './dom.js';
import {RAMPS, STRETCHES, asItIs, bandName, colourOf, firstStretch, modesOf, styleOf, variablesOf, windowOf} from './colours.js';
import {percentile, placesAlong, sampled} from './samples.js';
import PictureSource, {inverse, pixelSize, projectionFor} from './picture_source.js';

export default class Picture {
  constructor(image, samples, address) {
    Object.assign(this, {image, samples, address});
    this.modes = modesOf(image);
    this.mode = this.modes.find(({kind}) => kind === address.get('mode')) ?? this.modes[0];
    this.stretch = address.get('stretch') in STRETCHES ? address.get('stretch') : firstStretch(image);
    this.ramp = address.get('ramp') in RAMPS ? address.get('ramp') : image.attributes.photometric === 'MINISWHITE' ? 'grey, white first' : 'grey';
    this.at = image.shape.map((size, axis) => this.firstIndex(size, axis));
    this.bands = this.bandsOf(address.get('bands'));
    this.panel = element('aside', {className: 'panel'});
    this.status = element('output', {className: 'status'});
    this.levelShown = text('p', 'fact', '');
    this.target = element('div', {className: 'map', tabIndex: 0, ariaLabel: 'picture'});
    this.troubles = element('div', {className: 'troubles'});
    this.element = element('div', {className: 'picture'}, element('div', {className: 'canvas'}, this.target, this.status, this.troubles), this.panel);
  }

  firstIndex(size, axis) {
    const {names, sliders} = this.image;
    if (!sliders.includes(axis)) return 0;
    const told = Number(this.address.get(names[axis]) ?? NaN);
    if (Number.isInteger(told) && told >= 0 && told < size) return told;
    return names[axis] === 'z' ? size >> 1 : 0;
  }

  bandsOf(told) {
    const numbers = (told ?? '').split(',').map((part) => Number(part) - 1);
    const exist = numbers.every((number) => Number.isInteger(number) && number >= 0 && number < this.image.channels.length);
    return told && exist && numbers.length === this.mode.bands.length ? numbers : [...this.mode.bands];
  }

  async show() {
    const {image} = this;
    this.projection = projectionFor(image);
    this.layer = new WebGLTileLayer({});
    this.map = new Map({
      target: this.target,
      layers: [this.layer],
      controls: [new Zoom({className: 'zoom'}), ...(image.isPlaced || pixelSize(image) ? [new ScaleLine({className: 'scale'})] : [])],
      interactions: interactions({altShiftDragRotate: false, pinchRotate: false}),
      view: this.view(),
    });
    this.map.on('pointermove', ({coordinate, pixel}) => this.tell(coordinate, pixel));
    this.map.on('moveend', () => this.remember());
    this.map.on('loadstart', () => this.tellState('loading'));
    this.map.on('rendercomplete', () => {
      if (this.isAsking) return;
      this.tellLevel();
      this.tellState('ready');
    });
    await Promise.all([this.load(), this.readPlaces()]);
    this.controls();
  }

  // What each slider's places are called, where an array has their coordinates.
  async readPlaces() {
    const {image, samples} = this;
    this.places = await Promise.all(image.coordinates.map((told, axis) => (told && image.sliders.includes(axis) ? placesAlong(samples, told, image.shape[axis]) : null)));
  }

  // The page's state, which an error keeps until something else is chosen.
  tellState(state) {
    if (!this.troubles.childElementCount) document.body.dataset.state = state;
  }

  view() {
    const {extent, levels} = this.image;
    const [a, , , d] = levels[0].affine;
    const finest = Math.hypot(a, d);
    const width = extent[2] - extent[0];
    const height = extent[3] - extent[1];
    const whole = Math.max(width / Math.max(this.target.clientWidth, 256), height / Math.max(this.target.clientHeight, 256)) * 1.05;
    const told = ['x', 'y', 'resolution'].map((name) => Number.parseFloat(this.address.get(name)));
    const isTold = told.every(Number.isFinite) && told[2] > 0;
    return new View({
      projection: this.projection,
      center: isTold ? told.slice(0, 2) : [extent[0] + width / 2, extent[1] + height / 2],
      resolution: isTold ? told[2] : whole,
      maxResolution: Math.max(whole, finest) * 4,
      minResolution: finest / 64,
      multiWorld: true,
      enableRotation: false,
      constrainOnlyCenter: true,
      showFullExtent: true,
    });
  }

  // The planes that tiles need: a band each, and the alpha band last.
  planes() {
    const bands = this.mode.alpha === undefined ? this.bands : [...this.bands, this.mode.alpha];
    return bands.map((band) => this.at.map((index, axis) => (axis === this.image.channel ? band : index)));
  }

  // Ask for the bands that are shown, and show them as soon as their range is known.
  async load() {
    const asked = this.ask();
    const [ranges, source] = await Promise.all([this.ranges(), this.source()]);
    if (asked !== this.isAsking) return; // another band was chosen meanwhile
    this.shown = ranges;
    this.layer.setSource(source);
    this.restyle();
    this.isAsking = null;
  }

  ask() {
    this.troubles.replaceChildren();
    this.tellState('loading');
    this.isAsking = Symbol('asking');
    return this.isAsking;
  }

  async source() {
    const source = new PictureSource(this.image, this.samples, this.planes());
    Object.assign(source, {colours: this.bands.length, fixedLevel: this.fixedLevel});
    source.onFailure = (error) => this.trouble(error);
    await source.ready();
    return source;
  }

  async ranges() {
    return Promise.all(
      this.bands.map(async (band, position) => {
        const channel = this.image.channels[band];
        const color = colourOf({...this.mode, bands: this.bands}, this.image, position);
        const [low, high] = await this.range(channel);
        return {low, high, color, on: channel.active || this.mode.kind !== 'channels', band};
      }),
    );
  }

  async range(channel) {
    if (this.mode.kind === 'palette') return [0, 1];
    const own = this.mode.kind === 'channels' && !this.address.get('stretch') ? windowOf(this.image, channel) : null;
    if (own) return own;
    const {percents} = STRETCHES[this.stretch];
    const limits = asItIs(this.image);
    if (!percents && limits) return limits;
    const fixed = this.at.map((index, axis) => (axis === this.image.channel ? channel.index : index));
    const values = await sampled(this.samples, this.image, fixed);
    const [low, high] = (percents ?? [0, 100]).map((percent) => percentile(values, percent));
    if (!Number.isFinite(low)) return limits ?? [0, 1]; // nothing but nodata
    return high > low ? [low, high] : [low, low + 1];
  }

  restyle() {
    const limits = asItIs(this.image);
    const style = styleOf({...this.mode, bands: this.bands}, this.image, this.ramp, limits ? limits[1] : 1);
    this.layer.setStyle({...style, variables: variablesOf(this.shown)});
    this.legend();
  }

  recolour() {
    this.layer.updateStyleVariables(variablesOf(this.shown));
  }

  // Show what is chosen now.
  async again() {
    try {
      await this.load();
    } catch (error) {
      this.trouble(error);
    }
    this.remember();
  }

  controls() {
    const {image} = this;
    this.ranged = element('div', {className: 'ranges'});
    const parts = [];
    if (image.sliders.length) parts.push(section('Position', ...image.sliders.map((axis) => this.slider(axis))));
    parts.push(section('Colours', this.modeChoice(), (this.bandChoices = element('div')), this.stretchChoice(), this.ranged));
    parts.push(section('Levels', this.levelChoice(), this.levelShown));
    parts.push(section('Place', ...this.facts()));
    this.panel.replaceChildren(...parts);
    this.listBands();
    this.legend();
  }

  slider(axis) {
    const {image} = this;
    const {name, step, start, unit, labels} = image.axes[axis];
    const isScaled = unit && (step !== 1 || start);
    const place = (index) => this.places[axis]?.[index] ?? labels?.[index] ?? (isScaled ? `${decimal(start + index * step)} ${unit}` : '');
    const describe = (index) => [place(index), `${index + 1} of ${image.shape[axis]}`].filter(Boolean).join(' · ');
    return slider(
      name,
      image.shape[axis],
      this.at[axis],
      (index) => {
        this.at[axis] = index;
        clearTimeout(this.waiting);
        this.waiting = setTimeout(() => this.step(), 30); // a slider that is dragged asks for the last place only
      },
      describe,
    );
  }

  // Another plane in the same colours: its range stays, so that planes can be compared.
  async step() {
    const asked = this.ask();
    const source = await this.source();
    if (asked !== this.isAsking) return;
    this.layer.setSource(source);
    this.isAsking = null;
    this.remember();
  }

  modeChoice() {
    if (this.modes.length < 2) return null;
    const choices = this.modes.map(({kind, name}) => [kind, name]);
    return choice('Show', choices, this.mode.kind, (kind) => {
      this.mode = this.modes.find((mode) => mode.kind === kind);
      this.bands = [...this.mode.bands];
      this.listBands();
      this.again();
    });
  }

  listBands() {
    const {kind} = this.mode;
    const {channels} = this.image;
    const all = channels.map((channel) => [channel.index, bandName(channel, channels.length)]);
    const parts = [];
    if ((kind === 'rgb' || kind === 'one') && channels.length > 1) {
      const labels = kind === 'rgb' ? ['Red', 'Green', 'Blue'] : ['Band'];
      labels.forEach((label, position) =>
        parts.push(choice(label, all, this.bands[position], (index) => {
          this.bands[position] = Number(index);
          this.again();
        })),
      );
    }
    if (kind === 'one') {
      parts.push(choice('Ramp', Object.keys(RAMPS).map((name) => [name, name]), this.ramp, (name) => {
        this.ramp = name;
        this.restyle();
        this.remember();
      }));
    }
    this.bandChoices.replaceChildren(...parts);
  }

  stretchChoice() {
    if (this.modes.every(({kind}) => kind === 'palette')) return null;
    const choices = Object.keys(STRETCHES).filter((name) => name !== 'as-is' || asItIs(this.image));
    return choice('Stretch', choices.map((name) => [name, STRETCHES[name].label]), this.stretch, (name) => {
      this.stretch = name;
      this.address.set('stretch', name);
      this.again();
    });
  }

  // Each band that is shown with its colour and range; both can be changed.
  legend() {
    if (!this.ranged || !this.shown) return;
    if (this.mode.kind === 'palette') {
      this.ranged.replaceChildren(text('p', 'fact', `${this.mode.table.length} colours`));
      return;
    }
    this.ranged.replaceChildren(...this.shown.map((range, position) => this.rangeRow(range, position)));
  }

  rangeRow(range, position) {
    const channel = this.image.channels[range.band];
    const number = (end, label) =>
      element('input', {
        type: 'number', step: 'any', value: decimal(range[end]), ariaLabel: `${label} of ${bandName(channel, 2)}`,
        onchange: ({target}) => {
          if (Number.isFinite(target.valueAsNumber)) range[end] = target.valueAsNumber;
          this.recolour();
        },
      });
    const isChannel = this.mode.kind === 'channels';
    const name = bandName(channel, this.image.channels.length);
    const swatch = element('input', {type: 'color', value: `#${range.color}`, disabled: !isChannel, ariaLabel: `colour of ${name}`, oninput: ({target}) => {
      range.color = target.value.slice(1);
      this.recolour();
    }});
    const toggle = element('input', {type: 'checkbox', checked: range.on, ariaLabel: `show ${name}`, onchange: ({target}) => {
      range.on = target.checked;
      this.recolour();
    }});
    const head = element('div', {className: 'head'}, isChannel ? toggle : null, this.mode.kind === 'one' ? null : swatch, text('span', '', name));
    return element('div', {className: 'range', dataset: {band: position}}, head, element('div', {className: 'ends'}, number('low', 'low end'), text('span', '', '–'), number('high', 'high end')));
  }

  levelChoice() {
    const {levels, y, x} = this.image;
    if (levels.length < 2) return null;
    const sizes = levels.map(({shape}, index) => [index, `${index}: ${shape[x]} × ${shape[y]}`]);
    return choice('Level', [['', 'by zoom'], ...sizes], this.fixedLevel ?? '', (index) => {
      this.fixedLevel = index === '' ? undefined : Number(index);
      this.again();
    });
  }

  tellLevel() {
    const {levels, x, y} = this.image;
    const source = this.layer.getSource();
    const grid = source.getTileGrid();
    const index = source.levelFor(grid.getResolution(grid.getZForResolution(this.map.getView().getResolution())));
    const {shape} = levels[index];
    this.levelShown.textContent = `Shown: level ${index} of ${levels.length}, ${shape[x]} × ${shape[y]} pixels`;
    this.levelShown.dataset.level = index;
  }

  facts() {
    const {image} = this;
    const sizes = image.names.map((name, axis) => `${name} ${image.shape[axis]}`).join(' · ');
    const facts = [`${sizes}, ${image.dtype}`];
    if (image.isPlaced) facts.push(image.crs.code ?? nameOf(image.crs.wkt));
    else facts.push(image.crs ? 'No affine: shown in rows and columns' : 'No place: shown in rows and columns');
    if (image.date) facts.push(`Taken ${image.date}`);
    if (image.nodata !== null) facts.push(`nodata ${decimal(image.nodata)} is not drawn`);
    const grid = image.isPlaced && this.lonLat(getCenter(image.extent)) && element('label', {className: 'check'}, element('input', {type: 'checkbox', onchange: ({target}) => this.graticule(target.checked)}), text('span', '', 'longitudes and latitudes'));
    return [...facts.map((fact) => text('p', 'fact', fact)), ...(grid ? [grid] : [])];
  }

  graticule(isOn) {
    if (this.lines) this.map.removeLayer(this.lines);
    this.lines = null;
    if (!isOn) return;
    this.bound();
    const label = (options) => new Text({font: '11px system-ui', fill: new Fill({color: '#e6e8eb'}), stroke: new Stroke({color: '#15171a', width: 3}), ...options});
    this.lines = new Graticule({
      strokeStyle: new Stroke({color: '#e6e8eb88', width: 1}),
      showLabels: true,
      wrapX: false,
      lonLabelStyle: label({textBaseline: 'bottom'}),
      latLabelStyle: label({textAlign: 'end'}),
    });
    this.map.addLayer(this.lines);
  }

  // Where the lines may be: a CRS from a file's own WKT does not say where it holds, so the picture does.
  bound() {
    const {projection, image} = this;
    if (projection.getWorldExtent()) return;
    const around = buffer(image.extent, getWidth(image.extent));
    projection.setWorldExtent(transformExtent(around, projection, 'EPSG:4326', 8));
    projection.setExtent(around);
  }

  // Where the pointer is, and the samples there.
  tell(coordinate, pixel) {
    const {image} = this;
    const [a, b, c, d, e, f] = inverse(image.levels[0].affine);
    const [u, v] = coordinate;
    const column = Math.floor(a * u + b * v + c);
    const row = Math.floor(d * u + e * v + f);
    const isInside = row >= 0 && column >= 0 && row < image.shape[image.y] && column < image.shape[image.x];
    const parts = [];
    if (image.isPlaced) parts.push(`${decimal(Number(u.toFixed(6)))}, ${decimal(Number(v.toFixed(6)))}`, this.lonLat(coordinate));
    if (isInside) parts.push(`column ${column}, row ${row}`);
    const values = isInside && this.layer.getData(pixel);
    if (values?.[this.planes().length]) parts.push(`= ${[...values].slice(0, -1).map(decimal).join(', ')}`);
    this.status.textContent = parts.filter(Boolean).join('   ');
  }

  lonLat(coordinate) {
    try {
      const [longitude, latitude] = toLonLat(coordinate, this.projection);
      return Number.isFinite(longitude) ? `${longitude.toFixed(5)}°, ${latitude.toFixed(5)}°` : '';
    } catch {
      return ''; // a method that proj4 does not know
    }
  }

  trouble(error) {
    if (this.troubles.childElementCount > 2) return;
    this.troubles.append(failure('A part of this picture cannot be shown', error, 'What else can be read is shown.'));
  }

  // The address of what is shown, so that it can be kept and sent.
  remember() {
    const view = this.map.getView();
    const [x, y] = view.getCenter();
    const {address, image} = this;
    address.set('x', decimalPlaces(x));
    address.set('y', decimalPlaces(y));
    address.set('resolution', Number(view.getResolution().toPrecision(10)));
    address.set('mode', this.mode.kind);
    address.set('bands', this.bands.map((band) => band + 1).join(','));
    if (this.mode.kind === 'one') address.set('ramp', this.ramp);
    image.sliders.forEach((axis) => address.set(image.names[axis], this.at[axis]));
    address.keep();
  }

  close() {
    this.map?.setTarget(null);
    this.layer?.dispose();
  }
}

const decimalPlaces = (value) => Number(value.toFixed(9));
const nameOf = (wkt) => wkt.match(/^[A-Z]+\["([^"]*)"/)?.[1] ?? 'a CRS without a name';
