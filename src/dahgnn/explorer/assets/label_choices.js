// The classes that a row, or all rows of a loop, can get: the likeliest with their probabilities, the others
// smaller, and a field that names any class.
import {brief, button, count, cut, make, percent} from './elements.js';
import {classMark} from './map_colours.js';
import {keyOf} from './label_keys.js';
import {howMany, keycap, shareBar} from './label_parts.js';

// More buttons than this take time with each card, and nobody reads them; the field knows all classes.
const MOST_OTHERS = 40, MOST_KNOWN = 500;

/**
 * Fill an element with the classes to choose from.
 *
 * @param {HTMLElement} element
 * @param {object} options
 * @param {string[]} options.classes
 * @param {{digit: string|null, letter: string|null}[]} options.keys
 * @param {[string, number][]} [options.likely] - Names and probabilities, likeliest first.
 * @param {string|null} [options.label] - The class that the row has.
 * @param {number} [options.all] - How many rows get the class, if more than one.
 * @param {(label: string) => void} options.onLabel
 */
export function drawChoices(element, {classes, keys, likely = [], label = null, all = 0, onLabel}) {
  const places = new Map(classes.map((name, place) => [name, place])), told = new Set();
  const nodes = [];
  const choice = (name, share) => {
    told.add(name);
    return classButton({name, share, place: places.get(name) ?? -1, keys: keys[places.get(name)],
      isNow: name === label, all, onLabel});
  };
  if (likely.length) nodes.push(group('Likeliest classes', 'likely', likely.map(pair => choice(...pair))));
  const rest = classes.filter(name => !told.has(name)), shown = rest.slice(0, MOST_OTHERS);
  const others = group(likely.length ? 'Other classes' : 'Classes', 'others', shown.map(name => choice(name)));
  if (rest.length > shown.length)
    others.append(make('small', '', `and ${count(rest.length - shown.length)} more, by name`));
  element.replaceChildren(...nodes, others);
}

function group(name, kind, children) {
  const element = make('div', kind, ...children);
  element.setAttribute('role', 'group');
  element.setAttribute('aria-label', name);
  return element;
}

function classButton({name, share, place, keys, isNow, all, onLabel}) {
  const key = keyOf(keys), does = all ? `label all ${howMany(all, 'row')} as ` : '', cap = keycap(key ?? '·');
  const element = button(cap, 'choice', () => onLabel(name));
  // The key is told by aria-keyshortcuts.
  cap.setAttribute('aria-hidden', 'true');
  element.append(classMark(place), make('span', 'unseen', does), cut(name));
  if (share !== undefined) element.append(make('span', 'percent', percent(share)), shareBar(share));
  if (isNow) element.append(make('span', 'unseen', ', its label now'));
  element.title = does + brief(name, 300);
  const shortcuts = [keys?.digit, keys?.letter].filter(Boolean);
  if (shortcuts.length) element.setAttribute('aria-keyshortcuts', shortcuts.join(' '));
  if (isNow) element.setAttribute('aria-current', 'true');
  Object.assign(element.dataset, {place, key: key ?? ''});
  element.dataset.letter = keys?.letter ?? '';
  return element;
}

/**
 * Fill a form by whose field a person names any class, new or known. It stays while cards come and go.
 *
 * @param {HTMLFormElement} form
 * @param {() => string[]} classes
 * @param {string} does - What its button says.
 * @param {(label: string) => void} onLabel
 */
export function makeClassField(form, classes, does, onLabel) {
  const id = form.id + '-name', known = Object.assign(make('datalist'), {id: id + '-known'});
  const field = Object.assign(make('input'), {id, type: 'text', maxLength: 200, autocomplete: 'off',
    spellcheck: false, placeholder: 'new or known class'});
  field.setAttribute('aria-keyshortcuts', 'Shift+N');
  field.setAttribute('list', known.id);
  field.addEventListener('focus', () => known.replaceChildren(...classes().slice(0, MOST_KNOWN).map(name =>
    Object.assign(make('option'), {value: name}))));
  const label = make('label', '', keycap('N'), make('span', 'unseen', 'New or known class'));
  label.htmlFor = id;
  form.replaceChildren(label, field, known, Object.assign(make('button', 'mode', does), {type: 'submit'}));
  form.addEventListener('submit', event => {
    event.preventDefault();
    const name = field.value.trim();
    if (!name) return field.focus();
    field.value = '';
    // The next key is a class again.
    field.blur();
    onLabel(name);
  });
}
