// The last ten labels. Each can be opened again and changed; each says whether it is on the disk.
import {button, cut, make} from './elements.js';
import {find, howMany, named, thumbnail} from './label_parts.js';

const MOST = 10;
const STATES = {saving: 'saving …', waiting: 'not saved', refused: 'not saved', saved: 'saved'};

export class Recent {
  /**
   * @param {object} options
   * @param {string} options.window
   * @param {() => string[]} options.classes
   * @param {(entry: object) => void} options.onOpen
   */
  constructor(options) {
    Object.assign(this, {options, kept: [], own: [], opened: 0});
  }

  /** Take the server's list, newest first. */
  setKept(kept) {
    this.kept = kept;
    const last = Math.max(0, ...kept.map(each => each.event));
    // What the server knows as an event is in its list, or too old or undone.
    this.own = this.own.filter(each => !(each.event && each.event <= last));
    this.draw();
  }

  /** Show what was decided here, at once. @param {object} about @returns {object} */
  add(about) {
    const entry = {state: 'saving', ...about};
    this.own.unshift(entry);
    this.draw();
    return entry;
  }

  /** Take an own entry away. */
  remove(entry) {
    this.own = this.own.filter(each => each !== entry);
    this.draw();
  }

  /** Return the entries that are shown, newest first. */
  get entries() {
    // The server may tell of an event before it has answered.
    const isOwn = each => this.own.some(mine => mine.event ? mine.event === each.event :
      each.window === this.options.window && each.event > mine.seen && each.row === mine.row &&
        each.label === mine.label);
    // What was refused stands where it was tried, and what is on its way on top.
    const age = each => each.event ?? (each.state === 'refused' ? each.seen + 0.5 : Infinity);
    const all = [...this.own, ...this.kept.filter(each => !isOwn(each))];
    return all.sort((a, b) => age(a) === age(b) ? 0 : age(b) - age(a)).slice(0, MOST);
  }

  /** Take the newest entry of a row away, which is undone. @param {number} row */
  undo(row) {
    const entry = this.entries.find(each => each.row === row);
    this.own = this.own.filter(each => each !== entry);
    this.kept = this.kept.filter(each => each !== entry);
    this.draw();
  }

  draw() {
    const {entries} = this;
    find('recent-list').replaceChildren(...entries.map(entry => make('li', '', this.#tile(entry))));
    find('recent').classList.toggle('empty', !entries.length);
  }

  #tile(entry) {
    const {classes, window, onOpen} = this.options, state = entry.state ?? 'saved';
    const tile = button(thumbnail(entry), 'tile ' + state, () => onOpen(entry));
    tile.append(named(entry.label, classes().indexOf(entry.label)));
    tile.append(entry.count > 1 ? make('span', 'cut', howMany(entry.count, 'row')) : cut(entry.id));
    const foreign = entry.window && entry.window !== window ? 'elsewhere' : null;
    tile.append(make('small', 'state', foreign ?? STATES[state]));
    Object.assign(tile.dataset, {row: entry.row, state});
    return tile;
  }
}
