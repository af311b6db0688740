// The pages of the viewer: the list of what is served, and one image of it.  The part of the address behind # says
// which: #/NAME?image=...&x=... ; everything is asked for relative to this page, so that it works below any path.

import {choice, element, failure, text} from './dom.js';
import {Refused, isDrawn, isVolume, openDataset} from './dataset.js';
import {Samples} from './samples.js';
import {openElsewhere} from './clients.js';
import Picture from './picture.js';
import Volume, {canShow, stateOf} from './volume.js';

const bar = document.getElementById('bar');
const stage = document.getElementById('stage');
const base = new URL('.', location.href.split('#')[0]);
let shown = null;
let turn = 0;

// What is shown, as the address has it.
class Address extends URLSearchParams {
  constructor(name, query) {
    super(query);
    this.name = name;
  }

  static read() {
    const [name, query] = location.hash.replace(/^#\/?/, '').split(/\?(.*)/s);
    return new Address(decodeURIComponent(name), query ?? '');
  }

  toString() {
    return `#/${this.name.split('/').map(encodeURIComponent).join('/')}?${super.toString()}`;
  }

  keep() {
    history.replaceState(null, '', this.toString());
  }
}

async function route() {
  const mine = ++turn;
  shown?.close();
  shown = null;
  document.body.dataset.state = 'loading';
  mark(null);
  const address = Address.read();
  try {
    await (address.name ? dataset(address, () => mine === turn) : list());
  } catch (error) {
    if (mine === turn) stage.replaceChildren(failure(`${address.name || 'The list'} cannot be shown`, error, adviceOn(error)));
  }
}

function adviceOn(error) {
  if (error instanceof Refused) return error.advice;
  if (error instanceof TypeError && /fetch/i.test(error.message)) return 'The server did not answer. Is it still running?';
  return 'The lines under “Read elsewhere” may still read it.';
}

function head(title, ...controls) {
  document.title = title ? `${title} – jnrrdz` : 'jnrrdz';
  const home = element('a', {className: 'home', href: '#/'}, element('img', {src: 'viewer/icon.svg', alt: ''}), text('span', '', 'jnrrdz'));
  bar.replaceChildren(home, ...(title ? [text('h1', '', title)] : []), text('span', 'room', ''), ...controls.filter(Boolean));
}

// The classification of what is shown, above and below it; nothing where it has none.
function mark(marking) {
  for (const banner of document.querySelectorAll('.marking')) banner.remove();
  if (!marking) return;
  const banner = () => element('div', {className: 'marking', role: 'note', dataset: {class: marking.level}, textContent: marking.text});
  document.body.prepend(banner());
  document.body.append(banner());
}

async function served() {
  const answer = await fetch(new URL('index.json', base));
  if (!answer.ok) throw new Refused(`${answer.status}: ${(await answer.text()).trim()}`);
  return (await answer.json()).served;
}

const addressOf = ({url, name}) => new URL(url ?? name, base).href.replace(/\/$/, '');

async function list() {
  const entries = await served();
  head('', text('span', 'soft', entries.length === 1 ? '1 source' : `${entries.length} sources`));
  if (!entries.length) {
    stage.replaceChildren(element('p', {className: 'empty'}, 'Nothing is served. Name files, manifests or folders: ', text('code', '', 'jnrrdz serve FILE ...')));
  } else {
    const cards = element('ul', {className: 'cards'}, entries.map(card));
    stage.replaceChildren(...(entries.length > 12 ? [finder(cards)] : []), cards);
  }
  document.body.dataset.state = 'ready';
}

function card(entry) {
  const thumb = element('div', {className: 'thumb'});
  const image = element('img', {src: `${addressOf(entry)}/preview.png`, alt: '', loading: 'lazy', onerror: () => (thumb.textContent = 'no picture')});
  thumb.append(image);
  const title = entry.title ?? entry.name;
  const href = new Address(entry.name, '').toString().replace(/\?$/, '');
  return element('li', {dataset: {name: entry.name}}, element('a', {href}, thumb, text('div', 'name', title), text('div', 'kind', kindOf(entry, title))));
}

const kindOf = ({kind, name}, title) => [kind, name === title ? '' : name].filter(Boolean).join(' · ');

function finder(cards) {
  const input = element('input', {type: 'search', placeholder: 'Find by name', ariaLabel: 'Find by name', oninput: () => {
    const wanted = input.value.toLowerCase();
    for (const item of cards.children) item.hidden = !item.textContent.toLowerCase().includes(wanted);
  }});
  return element('div', {className: 'find'}, input);
}

async function dataset(address, isWanted) {
  head(address.name);
  stage.replaceChildren(text('p', 'empty', `Opening ${address.name} …`));
  const entry = (await served()).find(({name}) => name === address.name) ?? {name: address.name};
  const opened = await openDataset(addressOf(entry));
  if (!isWanted()) return;
  const {images, url} = opened;
  if (!images.length) throw new Refused('It holds no array of two dimensions or more.', 'Python, or another reader of Zarr, reads what it holds.');
  const image = images.find(({path}) => path === address.get('image')) ?? images.find((one) => one.label) ?? images[0];
  const samples = new Samples(url);
  const shows = viewsOf(image);
  const view = shows.find(({name}) => name === address.get('view')) ?? shows[0];
  head(
    entry.title ?? address.name,
    images.length > 1 ? choice('Image', images.map(({path, label}) => [path, label]), image.path, (path) => go(entry.name, {image: path})) : null,
    shows.length > 1 ? tabs(shows, view, (name) => go(entry.name, {image: image.path, view: name})) : null,
    element('button', {type: 'button', textContent: 'Read elsewhere', onclick: () => openElsewhere(url, image, stateOf(image))}),
  );
  if (!isDrawn(image)) throw new Refused(`Its samples are ${image.dtype}, which no browser draws.`, 'The lines under “Read elsewhere” read them.');
  shown = view.make(image, samples, address);
  mark(image.marking);
  stage.replaceChildren(shown.element);
  await shown.show();
}

// Planes for all; cross-sections too where there is depth, and first where the planes are nothing but a volume's.
function viewsOf(image) {
  const planes = {name: 'planes', title: 'Planes', make: (...its) => new Picture(...its)};
  const sections = {name: 'sections', title: 'Cross-sections', make: (...its) => new Volume(...its)};
  if (!isVolume(image) || !canShow(image)) return [planes];
  return image.channel < 0 && image.sliders.length === 1 ? [sections, planes] : [planes, sections];
}

function tabs(views, current, onchoose) {
  return element('div', {className: 'tabs'}, views.map(({name, title}) =>
    element('button', {type: 'button', textContent: title, ariaPressed: String(name === current.name), onclick: () => onchoose(name)})));
}

function go(name, choices) {
  location.hash = new Address(name, choices).toString();
}

addEventListener('hashchange', route);
route();
