// The classes that a row, or all rows of a loop, can get: the likeliest with their probabilities, the others
// smaller, and a field that names any class.
import {brief, button, cut, isolated, make, percent} from './elements.js';
import {classMark} from './map_colours.js';
import {keyOf} from './label_keys.js';
import {howMany, keycap, shareBar} from './label_parts.js';

// More buttons than this take time with each card, and nobody reads them; the field knows all classes.
const MOST_OTHERS = 40;

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
    others.append(make('small', '', `and ${howMany(rest.length - shown.length, 'more')}, by name`.replace('mores', 'more')));
  nodes.push(others, classField(classes, all, onLabel));
  element.replaceChildren(...nodes);
}

function group(name, kind, children) {
  const element = make('div', kind, ...children);
  element.setAttribute('role', 'group');
  element.setAttribute('aria-label', name);
  return element;
}

function classButton({name, share, place, keys, isNow, all, onLabel}) {
  const key = keyOf(keys), element = button('', 'choice', () => onLabel(name));
  const cap = keycap(key ?? '·');
  element.append(cap, classMark(place), cut(name));
  if (share !== undefined) element.append(make('span', 'percent', percent(share)), shareBar(share));
  const does = all ? `label all ${howMany(all, 'row')} as ` : '';
  element.setAttribute('aria-label', does + brief(name) + (share === undefined ? '' : `, ${percent(share)}`) +
    (isNow ? ', its label now' : ''));
  element.title = does + brief(name, 300);
  const shortcuts = [keys?.digit, keys?.letter].filter(Boolean);
  if (shortcuts.length) element.setAttribute('aria-keyshortcuts', shortcuts.join(' '));
  if (isNow) element.setAttribute('aria-current', 'true');
  Object.assign(element.dataset, {place, key: key ?? ''});
  element.dataset.letter = keys?.letter ?? '';
  return element;
}

// One field for the whole page at a time: the list of known names is made when it is first needed.
let fields = 0;
function classField(classes, all, onLabel) {
  const form = make('form', 'new-class'), id = 'new-class-' + ++fields;
  const field = Object.assign(make('input'), {id, type: 'text', maxLength: 200, autocomplete: 'off',
    spellcheck: false, placeholder: classes.length ? 'new or known class' : 'name the first class'});
  field.setAttribute('aria-keyshortcuts', 'Shift+N');
  field.dataset.newClass = '';
  const known = make('datalist');
  known.id = id + '-known';
  field.setAttribute('list', known.id);
  field.addEventListener('focus', () => known.replaceChildren(...classes.slice(0, 500).map(name =>
    Object.assign(make('option'), {value: name}))));
  const label = Object.assign(make('label', '', keycap('⇧N')), {htmlFor: id});
  label.append(make('span', 'unseen', all ? `Class for all ${howMany(all, 'row')}` : 'New or known class'));
  const go = Object.assign(make('button', 'mode', all ? 'label all' : 'label'), {type: 'submit'});
  form.append(label, field, known, go);
  form.addEventListener('submit', event => {
    event.preventDefault();
    const name = field.value.trim();
    if (name) onLabel(name);
    else field.focus();
  });
  return form;
}

/** Return a sentence that names a class, for the list of what happened. @param {string} name */
export const className = name => isolated(brief(name));
