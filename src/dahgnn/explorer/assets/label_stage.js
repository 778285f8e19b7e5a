// What stands on the stage: the next row of the queue, a row that was opened, a doubtful label, what is inside a
// loop, or what changed. One at a time, and each knows where it leads back to.
import {brief, button, count, isolated} from './elements.js';
import {ask} from './label_api.js';
import {drawCard, drawNoCard} from './label_card.js';
import {Doubtful, drawChanged} from './label_lists.js';
import {notify, tell} from './label_notices.js';
import {find, hint, howMany, say} from './label_parts.js';
import {preload} from './label_queue.js';
import {drawSheet, drawSheetChoices} from './label_sheet.js';
import {Why} from './label_why.js';

/**
 * @typedef {object} Scene
 * @property {'queue'|'row'|'doubtful'|'sheet'|'changed'} kind
 * @property {object} [card] - The row of a scene that shows one; the queue has its own.
 * @property {number[]} [rows] - The rows inside a loop.
 * @property {Scene} [back] - What was there before.
 */

const QUEUE = {kind: 'queue'}, CARDS = ['queue', 'row', 'doubtful'];

export class Stage {
  /**
   * @param {object} options
   * @param {object} options.state
   * @param {import('./label_queue.js').CardQueue} options.queue
   * @param {import('./label_map.js').LabelMap} options.map
   * @param {(label: string) => void} options.onLabel
   * @param {(together: {event: number}) => void} options.onUndo - All that was labelled at once is given back.
   */
  constructor(options) {
    Object.assign(this, options);
    Object.assign(this, {scene: QUEUE, drawn: null, doubtful: new Doubtful()});
    this.why = new Why({classes: () => this.state.classes, onOpen: row => this.openRow(row, 'map'),
      onLinks: links => this.map.link(links)});
  }

  /** The row that a key would label, or null. */
  get card() { return (this.scene.kind === 'queue' ? this.queue.current : this.scene.card) ?? null; }

  /** Whether a row comes from the queue. */
  get isQueue() { return this.scene.kind === 'queue'; }

  /** Show a scene. @param {Scene} scene */
  show(scene) {
    this.scene = scene;
    const {kind} = scene, isCard = CARDS.includes(kind);
    find('card').hidden = !isCard;
    for (const id of ['sheet', 'changed']) find(id).hidden = kind !== id;
    for (const id of ['queue', 'doubtful', 'changed'])
      find('show-' + id).setAttribute('aria-pressed', kind === id);
    this.map.raise(scene.rows ?? scene.back?.rows ?? null);
    if (!isCard) this.#forgetRow();
    else if (kind === 'queue') this.drawQueue(true);
    else this.drawRow();
  }

  showQueue() { this.show(QUEUE); }
  leave() { this.show(this.scene.back ?? QUEUE); }

  // --- Rows ---

  /** Show the first card of the queue, unless it is there. @param {boolean} [again] - Draw it in any case. */
  drawQueue(again = false) {
    if (!this.isQueue) return;
    const {current, trouble, left, asking} = this.queue;
    if (current && current === this.drawn && !again) return;
    if (current) return this.drawRow();
    this.drawn = null;
    this.#showActions();
    this.#forgetRow();
    if (trouble) drawNoCard('No row', trouble.message);
    else if (left === null || asking) drawNoCard('One moment', 'The next row is on its way.');
    else drawNoCard('All rows are done', 'No row is left to ask about. Export the labels, or look for ' +
      'doubtful ones.');
  }

  /** Show the row of the scene. */
  drawRow() {
    const {card, state} = this;
    this.drawn = card;
    drawCard(card, {classes: state.classes, keys: state.keys, notes: this.#notes(card), onLabel: this.onLabel});
    this.#showActions();
    // The queue leaps from place to place; a map that leapt along would be no map.
    this.map.choose(card.row, !this.isQueue);
    this.why.show(card);
  }

  /** Show the classes as they are now. */
  redraw() {
    if (this.scene.kind === 'sheet') drawSheetChoices(this.scene.rows, this.#sheetOptions());
    else if (this.card && this.drawn) this.drawRow();
  }

  #forgetRow() {
    this.why.clear();
    this.map.choose(-1);
  }

  #notes({elsewhere, together}) {
    const notes = [];
    if (this.scene.kind === 'doubtful') notes.push(this.doubtful.sentence());
    if (elsewhere === null) notes.push(['Another window has just taken its label away.']);
    else if (elsewhere !== undefined)
      notes.push(['Another window has just labelled it ', isolated(brief(elsewhere)), '.']);
    if (together) notes.push([`It was labelled together with ${howMany(together.rows - 1, 'other')}. `,
      button(`undo all ${count(together.rows)}`, 'link', () => this.onUndo(together))]);
    if (!this.state.classes.length)
      notes.push(['No class has a name yet. Press Shift+N and name the class of this row.']);
    return notes;
  }

  #showActions() {
    const {card, scene: {kind}} = this;
    find('keep').hidden = kind !== 'doubtful';
    find('clear').hidden = !card || card.label === null;
    find('back').hidden = kind !== 'row';
    find('skip').firstChild.textContent = kind === 'doubtful' ? 'next ' : 'skip ';
    find('skip').hidden = !card || kind === 'row';
  }

  // --- Other scenes ---

  /** Open a row. @param {number} row @param {string} way @param {object} [more] - What its card says besides. */
  async openRow(row, way, more = {}) {
    try {
      const card = preload({...await ask(`/api/rows/${row}/card`), way, ...more}), {scene} = this;
      this.show({kind: 'row', card, back: scene.kind === 'row' ? scene.back : scene});
      find('card').focus({preventScroll: true});
      find('card').scrollIntoView({block: 'nearest'});
    } catch (error) { tell(error); }
  }

  /** Show what is inside a loop. @param {Int32Array} found */
  async openSheet(found) {
    const rows = [...found];
    if (!rows.length) return hint('No row is inside the loop.');
    this.show({kind: 'sheet', rows});
    say(howMany(rows.length, 'row') + ' inside the loop');
    try {
      await drawSheet(rows, this.#sheetOptions());
      find('sheet').scrollIntoView({block: 'nearest'});
    } catch (error) {
      tell(error);
      this.showQueue();
    }
  }
  #sheetOptions() {
    return {classes: this.state.classes, keys: this.state.keys, onLabel: this.onLabel,
      onOpen: row => this.openRow(row, 'loop')};
  }

  async openDoubtful() {
    try {
      await this.doubtful.load();
      await this.#openDoubt();
    } catch (error) { tell(error); }
  }
  async #openDoubt() {
    const {current} = this.doubtful;
    if (!current) {
      this.showQueue();
      return notify('doubtful', ['No label looks doubtful.'], {closes: true});
    }
    const card = await ask(`/api/rows/${current.row}/card`);
    this.show({kind: 'doubtful', card: preload({...card, way: 'doubtful'})});
  }

  async openChanged() {
    this.show({kind: 'changed'});
    await drawChanged(this.state.classes, row => this.openRow(row, 'map')).catch(tell);
  }

  /** Go on after a row. @param {boolean} settled - Whether it need not be asked again. */
  goOn(settled) {
    const {card, queue, scene} = this;
    if (scene.kind === 'doubtful') {
      this.doubtful.next(settled);
      return this.#openDoubt().catch(tell);
    }
    const isNext = queue.current?.row === card.row;
    if (scene.kind === 'queue' || settled && isNext) queue.advance();
    else if (settled) queue.drop(new Set([card.row]));
    if (scene.kind === 'queue') this.drawQueue();
    else this.leave();
  }

  /** Put a row that is undone on the stage again. @param {object} card @param {Scene} scene - Where it was. */
  bringBack(card, scene) {
    if (scene.kind !== 'queue') return this.show({...scene, kind: 'row', card});
    this.queue.putBack(card);
    this.showQueue();
  }
}
