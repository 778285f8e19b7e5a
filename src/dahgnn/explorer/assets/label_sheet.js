// What is inside a loop on the map, to look at before all of it gets one class.
import {brief, button, count, cut, isolated, make, percent} from './elements.js';
import {send} from './label_api.js';
import {drawChoices} from './label_choices.js';
import {find, howMany, named, thumbnail} from './label_parts.js';

/**
 * Ask what is inside a loop, and show it.
 *
 * @param {number[]} rows
 * @param {object} options
 * @param {string[]} options.classes
 * @param {object[]} options.keys
 * @param {(row: number) => void} options.onOpen
 * @param {(label: string) => void} options.onLabel
 */
export async function drawSheet(rows, options) {
  find('sheet-title').textContent = howMany(rows.length, 'row');
  find('sheet-body').replaceChildren(make('p', 'note', 'One moment …'));
  find('sheet-choices').replaceChildren();
  const sheet = await send('/api/sheet', {rows});
  const tiles = sheet.sample.map(each => make('li', '', tile(each, options)));
  const note = sheet.labelled ? [make('p', 'sentence', sheet.labelled === 1 ? 'One of them has a label, which ' +
    'would be replaced.' : `${count(sheet.labelled)} of them have a label, which would be replaced.`)] : [];
  const shown = sheet.sample.length < sheet.count ?
    [make('p', 'note', `${count(sheet.sample.length)} of them, spread over the loop:`)] : [];
  find('sheet-body').replaceChildren(...note, countsList(sheet, options.classes), ...shown,
    make('ul', 'tiles', ...tiles));
  drawSheetChoices(rows, options);
}

/** Show the classes that all rows of the sheet can get. */
export function drawSheetChoices(rows, {classes, keys, onLabel}) {
  const title = make('h3', '', `Label all ${howMany(rows.length, 'row')} as`), choices = make('div', 'choices');
  drawChoices(choices, {classes, keys, all: rows.length, onLabel});
  find('sheet-choices').replaceChildren(title, choices);
}

const MOST_COUNTS = 16;
function countsList({counts, count: all}, classes) {
  const items = counts.slice(0, MOST_COUNTS).map(([name, number]) => make('li', '',
    named(name, classes.indexOf(name)), ' ', make('small', '', `${count(number)}, ${percent(number / all)}`)));
  if (counts.length > MOST_COUNTS)
    items.push(make('li', '', `… and ${count(counts.length - MOST_COUNTS)} more`));
  return make('ul', 'counts', ...items);
}

function tile(each, {classes, onOpen}) {
  const element = button(thumbnail(each), 'tile', () => onOpen(each.row)), name = each.label ?? each.predicted;
  if (name !== null) element.append(named(name, classes.indexOf(name)));
  element.append(cut(each.id));
  if (!each.picture && each.text) element.append(make('span', 'words', isolated(brief(each.text, 120))));
  element.append(make('small', '', each.label !== null ? 'label' :
    each.predicted !== null ? percent(each.probability) : 'no guess'));
  return element;
}
