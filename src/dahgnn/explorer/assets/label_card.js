// The card: one row at a time, large, with what is known of it and the classes to choose from.
import {brief, count, isolated, make} from './elements.js';
import {drawChoices} from './label_choices.js';
import {find, idOf, named} from './label_parts.js';

const WAYS = {diverse: 'unlike the others', uncertain: 'the model is unsure', random: 'drawn at random',
  audit: 'audit', map: 'from the map', loop: 'from a loop', doubtful: 'doubtful label', recent: 'labelled before',
  find: 'found by its id'};
// Pictures of so few pixels are shown with their pixels, not blurred.
const MOST_CRISP = 160;

/**
 * Show a card.
 *
 * @param {object} card
 * @param {object} options
 * @param {string[]} options.classes
 * @param {object[]} options.keys
 * @param {(Node|string)[][]} [options.notes] - Sentences above what is known.
 * @param {(label: string) => void} options.onLabel
 */
export function drawCard(card, {classes, keys, notes = [], onLabel}) {
  const section = find('card'), hadFocus = section.contains(document.activeElement);
  find('card-title').replaceChildren('Row ', idOf(card.id));
  find('card-way').textContent = WAYS[card.way] ?? '';
  section.dataset.row = card.row;
  section.dataset.way = card.way;
  // A picture leaves room for the classes beside it, a text does not.
  section.classList.toggle('pictured', Boolean(card.image) && !card.texts?.length);
  find('card-notes').replaceChildren(...[...ownNotes(card, classes), ...notes].map(note =>
    make('p', 'sentence', ...note)));
  find('card-body').replaceChildren(...bodyOf(card));
  find('card-body').scrollTop = 0;
  drawChoices(find('card-choices'), {classes, keys, label: card.label, onLabel,
    likely: card.hidden ? [] : card.likely ?? []});
  // What had the focus may be gone; a screen reader goes on at the new row. A field that stays keeps it, lest the
  // rest of a name be taken for keys.
  if (hadFocus && !section.contains(document.activeElement)) section.focus({preventScroll: true});
}

function ownNotes(card, classes) {
  const notes = [];
  if (card.hidden) notes.push(['Drawn at random to measure how right the model is; its guess is hidden until ' +
    'you have decided.']);
  // Of a doubtful label another sentence says more.
  if (card.label !== null && card.way !== 'doubtful') {
    const by = {file: 'from the file', person: 'given by a person'}[card.by];
    notes.push(['Its label is ', named(card.label, classes.indexOf(card.label)), by ? `, ${by}.` : '.']);
  }
  return notes;
}

function bodyOf(card) {
  const nodes = [];
  if (card.image) nodes.push(pictureOf(card));
  for (const [name, text] of card.texts ?? []) nodes.push(textOf(name, text));
  if (card.cells?.length) nodes.push(cellsOf(card));
  return nodes.length ? nodes : [make('p', 'note', 'Nothing but its features is known of this row.')];
}

function pictureOf({image, id}) {
  const figure = make('figure', 'picture', image);
  image.alt = `Picture of row ${brief(id)}`;
  const fit = () => {
    figure.classList.toggle('crisp', Math.max(image.naturalWidth, image.naturalHeight) <= MOST_CRISP);
  };
  const give = () => figure.replaceChildren(make('p', 'note', 'Its picture cannot be shown.'));
  if (image.complete && image.naturalWidth) fit();
  else if (image.complete && image.src) give();
  image.onload = fit;
  image.onerror = give;
  return figure;
}

function textOf(name, text) {
  return make('article', 'text', make('h3', '', isolated(brief(name))), make('p', '', isolated(withLines(text))));
}
// The server shows what acts unseen by signs; in a text, lines and tabs may be what they are.
const withLines = text => text.replace(/␍?␊/g, '\n').replaceAll('␉', '\t');

function cellsOf({cells, columns}) {
  const rows = cells.map(([name, text]) => {
    const head = make('th', '', isolated(brief(name, 120)));
    head.scope = 'row';
    return make('tr', '', head, make('td', '', isolated(text)));
  });
  const table = make('table', 'cells', make('tbody', '', ...rows));
  const rest = columns - cells.length;
  return make('div', '', table, ...rest > 0 ?
    [make('p', 'note', `${count(cells.length)} of ${count(columns)} columns`)] : []);
}

/** Show that no row is left, or that none has come yet. @param {(Node|string)[]} words */
export function drawNoCard(title, ...words) {
  find('card-title').textContent = title;
  find('card-way').textContent = '';
  delete find('card').dataset.row;
  delete find('card').dataset.way;
  find('card-notes').replaceChildren();
  find('card-body').replaceChildren(make('p', '', ...words));
  find('card-choices').replaceChildren();
}
