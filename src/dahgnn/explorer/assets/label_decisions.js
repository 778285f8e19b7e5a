// What a person decides: labels, skips, what is kept, and undo. The page shows each at once; the outbox brings
// it to the server, and what comes back is shown then.
import {brief, count, isolated} from './elements.js';
import {newKey} from './label_api.js';
import {closeNotice, forget, noSession, notify, tell} from './label_notices.js';
import {Outbox} from './label_outbox.js';
import {hint, howMany, say} from './label_parts.js';

const isLabel = entry => entry.path === '/api/label';
const aboutOf = card => ({id: card.id, picture: card.picture});

export class Decisions {
  /**
   * @param {object} options
   * @param {string} options.window
   * @param {object} options.state
   * @param {import('./label_recent.js').Recent} options.recent
   * @param {import('./label_map.js').LabelMap} options.map
   * @param {import('./label_stage.js').Stage} options.stage
   * @param {(answer: object) => void} options.onAnswer - The server tells a version, classes, counts.
   * @param {(classes: string[]) => void} options.onClasses - A class got its name here.
   */
  constructor(options) {
    Object.assign(this, options);
    // What this page did, for undo; and the entries of the list of recent labels by their keys.
    Object.assign(this, {done: [], shown: new Map()});
    this.outbox = new Outbox({onChange: () => this.#showOutbox(),
      onAnswer: (entry, answer) => this.#confirmed(entry, answer),
      onRefusal: (entry, refusal) => this.#refused(entry, refusal)});
  }

  /** Rows that were decided, but the server may not know it yet. */
  get pendingRows() {
    return this.outbox.entries.flatMap(({body}) => body.rows ?? (body.row === undefined ? [] : [body.row]));
  }

  /** Pairs of rows and a label that are on their way. */
  get pendingLabels() { return this.outbox.entries.filter(isLabel).map(({body}) => [body.rows, body.label]); }

  /** Send what an earlier page of this window could not. */
  resume() {
    for (const {path, body, about} of this.outbox.resume()) {
      if (path !== '/api/label') continue;
      this.shown.set(body.key, this.recent.add(about));
      this.map.setLabels(body.rows, body.rows.map(() => body.label));
    }
    this.#showOutbox();
  }

  // --- What a person does ---

  /** Label what is on the stage. @param {string|null} name - Null takes the label away. */
  label(name) {
    const {card, scene} = this.stage;
    if (scene.kind === 'sheet') return this.#labelSheet(name);
    if (!card) return;
    this.#send([card.row], name, card.way, aboutOf(card), {card, scene});
    say(`Row ${brief(card.id)}: ${name === null ? 'no label' : brief(name)}`);
    if (card.hidden && card.likely?.length) hint(verdict(card, name));
    this.stage.goOn(true);
  }
  #labelSheet(name) {
    const {scene, scene: {rows}, queue} = this.stage;
    this.#send(rows, name, 'loop', {id: '', picture: this.state.start.pictures}, {scene});
    say(`${howMany(rows.length, 'row')}: ${brief(name)}`);
    queue.drop(new Set(rows));
    this.stage.showQueue();
  }

  skip() {
    const {stage} = this, {card} = stage;
    if (!card) return;
    if (stage.isQueue) {
      this.#sendOne('/api/skip');
      say(`Row ${brief(card.id)}: skipped`);
    }
    stage.goOn(false);
  }

  /** Keep a label that looked doubtful. */
  keep() {
    const {card} = this.stage;
    this.#sendOne('/api/keep');
    say(`Row ${brief(card.id)}: its label is kept`);
    this.stage.goOn(true);
  }

  /** Undo the last action of this window. */
  undo() {
    const last = this.done.pop();
    this.#add('/api/undo', {event: null}, {expects: last?.rows[0] ?? last?.card.row});
    if (!last) return;
    const {rows, before, card, scene} = last;
    if (rows.length) {
      this.map.setLabels(rows, before);
      this.recent.undo(rows[0]);
    }
    hint('Undone' + (card ? `: row ${brief(card.id)}` : ''));
    if (!card) return this.stage.show(scene);
    if (rows.length) [card.label] = before;
    this.stage.bringBack(card, scene);
  }

  /** Undo one action, that labelled many rows. @param {{event: number}} together */
  undoTogether({event}) {
    this.#add('/api/undo', {event}, {expects: this.stage.card.row});
    this.done = [];
    this.stage.leave();
  }

  #add(path, body, about) { return this.outbox.add(path, {window: this.window, ...body}, about); }

  // Send what concerns the row on the stage, and changes no label.
  #sendOne(path) {
    const {card, scene} = this.stage;
    const entry = this.#add(path, {row: card.row, seen: this.state.version}, aboutOf(card));
    this.done.push({key: entry.body.key, rows: [], before: [], card, scene});
  }

  // Show labels at once, and send them.
  #send(rows, label, way, about, from) {
    const {classes, version: seen} = this.state, before = rows.map(row => this.map.labelOf(row));
    if (label !== null && !classes.includes(label)) this.onClasses([...classes, label]);
    const what = {...about, row: rows[0], count: rows.length, label, way, window: this.window, seen};
    this.map.setLabels(rows, rows.map(() => label));
    const entry = this.#add('/api/label', {rows, label, way, seen}, what);
    this.shown.set(entry.body.key, this.recent.add({...what, state: entry.state}));
    this.done.push({key: entry.body.key, rows, before, ...from});
  }

  // --- What the server says to it ---

  #showOutbox() {
    const {entries, trouble} = this.outbox;
    for (const entry of entries) Object.assign(this.shown.get(entry.body.key) ?? {}, {state: entry.state});
    this.recent.draw();
    if (!trouble) return forget('outbox');
    const are = entries.length === 1 ? 'is' : 'are';
    notify('outbox', [trouble.status === 401 ? noSession : trouble.message,
      ` ${howMany(entries.length, 'action')} ${are} not saved yet; the page keeps trying.`],
    {bad: true, actions: [['try now', () => this.outbox.retry()]]});
  }

  #confirmed(entry, answer) {
    this.onAnswer(answer);
    Object.assign(this.shown.get(entry.body.key) ?? {}, {state: 'saved', event: answer.event});
    this.shown.delete(entry.body.key);
    if (entry.path === '/api/undo') this.#undone(entry, answer);
  }

  #undone({about}, {rows, labels}) {
    // Many rows are not listed.
    if (!rows) return this.map.reload().catch(tell);
    this.map.setLabels(rows, labels);
    // After a reload of the page only the server knows what the last action was.
    if (!rows.includes(about.expects)) this.stage.openRow(rows[0], 'recent');
  }

  #refused(entry, refusal) {
    const own = this.shown.get(entry.body.key);
    Object.assign(own ?? {}, {state: 'refused'});
    this.done = this.done.filter(each => each.key !== entry.body.key);
    if (refusal.status === 404 && entry.path === '/api/undo') return hint('There is nothing to undo.');
    // What was shown at once is not so.
    this.map.reload().catch(tell);
    if (refusal.status === 409 && isLabel(entry)) this.#tellConflict(entry, refusal.body, own);
    else tell(refusal);
  }

  #tellConflict({body, about}, {conflicts, version}, own) {
    this.onAnswer({version});
    const [first] = conflicts, {rows, label, way} = body;
    const named = name => name === null ? 'no label' : isolated(brief(name)), others = conflicts.length - 1;
    const more = others ? [` (and changed ${count(others)} more of these rows)`] : [];
    const close = event => {
      closeNotice(event);
      if (own) this.recent.remove(own);
    };
    const words = ['Row ', isolated(brief(first.id)), ': another window gave it ', named(first.label), ...more,
      '. Yours, ', named(label), ', is not saved.'];
    notify('conflict-' + newKey(), words, {bad: true, actions: [
      ['use mine', event => {
        close(event);
        this.#send(rows, label, way, about, {scene: this.stage.scene});
      }],
      ['keep theirs', close]]});
  }
}

// The guess of an audit row was hidden; now it may be told.
function verdict({id, likely: [[guess]]}, name) {
  return `Row ${brief(id, 40)}: the model had guessed ${guess === name ? 'the same' : brief(guess)}.`;
}
