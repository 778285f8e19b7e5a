// Two lists over all rows: labels that look doubtful, and rows whose class changed with the last model.
import {button, count, cut, isolated, brief, make, percent} from './elements.js';
import {ask} from './label_api.js';
import {find, howMany, named, thumbnail} from './label_parts.js';

/** Labels that look doubtful, one after the other. */
export class Doubtful {
  constructor() { Object.assign(this, {rows: [], place: 0, count: 0}); }

  async load() {
    const {rows, count: all} = await ask('/api/doubtful');
    Object.assign(this, {rows, count: all, place: 0});
  }

  get current() { return this.rows[this.place] ?? null; }

  /** Go to the next one, and take this one out if it is settled. */
  next(settled) {
    if (settled) {
      this.rows.splice(this.place, 1);
      this.count--;
    } else this.place++;
    if (this.place >= this.rows.length) this.place = 0;
  }

  /** Return a sentence about the current one. @returns {(Node|string)[]} */
  sentence() {
    const {label, opinion, probability, given_probability: given} = this.current;
    return [`Doubtful label ${count(this.place + 1)} of ${count(this.count)}. It is labelled `,
      isolated(brief(label)), `, which models that had not seen this label give ${percent(given)}; they say `,
      isolated(brief(opinion)), `, ${percent(probability)}.`];
  }
}

/** Show the rows whose class changed. @param {string[]} classes @param {(row: number) => void} onOpen */
export async function drawChanged(classes, onOpen) {
  const {model, count: all, rows} = await ask('/api/changed');
  const name = text => named(text, classes.indexOf(text));
  const tiles = rows.map(each => {
    const tile = button(thumbnail(each), 'tile', () => onOpen(each.row));
    tile.append(cut(each.id), make('span', 'change', name(each.before), ' → ', name(each.after)));
    return make('li', '', tile);
  });
  const words = !model ? 'There is no model yet.' : !all ? `Model ${model} changed the class of no row.` :
    `Model ${model} changed the class of ${howMany(all, 'row')}` + (rows.length < all ?
      `; these are ${count(rows.length)} of them.` : '.');
  find('changed-body').replaceChildren(make('p', 'sentence', words), make('ul', 'tiles', ...tiles));
}
