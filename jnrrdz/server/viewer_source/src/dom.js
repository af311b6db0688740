// Elements of the page.  Names and attributes come from files of strangers: they become text, never HTML.

export function element(tag, properties = {}, ...children) {
  const {dataset, style, ...others} = properties;
  const made = Object.assign(document.createElement(tag), others);
  Object.assign(made.dataset, dataset);
  Object.assign(made.style, style);
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

export const text = (tag, className, content) => element(tag, {className, textContent: content});

// A drop-down list; choices are pairs of value and label.
export function choice(label, choices, value, onchange) {
  const select = element(
    'select',
    {ariaLabel: label, onchange: () => onchange(select.value)},
    choices.map(([its, shown]) => element('option', {value: its, textContent: shown, selected: String(its) === String(value)})),
  );
  return element('label', {className: 'field'}, text('span', '', label), select);
}

// A slider with buttons to step, its value written beside it.
export function slider(label, size, value, onchange, describe = String) {
  const shown = text('output', '', describe(value));
  const range = element('input', {type: 'range', min: 0, max: size - 1, step: 1, ariaLabel: label});
  range.value = value;
  const set = (next) => {
    range.value = Math.min(Math.max(next, 0), size - 1);
    shown.textContent = describe(Number(range.value));
    onchange(Number(range.value));
  };
  range.oninput = () => set(Number(range.value));
  const step = (by, sign) =>
    element('button', {type: 'button', textContent: sign, ariaLabel: `${label} ${by > 0 ? 'forward' : 'back'}`, onclick: () => set(Number(range.value) + by)});
  return element('div', {className: 'slider', dataset: {axis: label}}, text('span', '', label), step(-1, '‹'), range, step(1, '›'), shown);
}

export function section(title, ...children) {
  return element('section', {}, text('h2', '', title), ...children);
}

// What failed, named, in place of what it would have shown.
export function failure(what, error, advice) {
  const reason = error instanceof Error ? error.message : String(error);
  document.body.dataset.state = 'error';
  return element(
    'div',
    {className: 'failure', role: 'alert'},
    text('h2', '', what),
    text('pre', '', reason),
    advice ? text('p', '', advice) : null,
  );
}

export const decimal = (value) =>
  !Number.isFinite(value) ? '–' : Number.isSafeInteger(value) ? String(value) : String(Number(value.toPrecision(6)));
