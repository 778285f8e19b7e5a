// What a person decides: labels, skips, what is kept, and undo. The page shows each at once; the outbox brings it to
// the server, and what comes back is shown then.
import {brief, count, isolated} from './elements.js';
import {newKey} from './label_api.js';
import {closeNotice, forget, noSession, notify, tell} from './label_notices.js';
import {Outbox} from './label_outbox.js';
import {howMany, say} from './label_parts.js';

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
    for (const entry of this.outbox.resume())
      if (isLabel(entry)) this.shown.set(entry.body.key, this.recent.add(entry.about));
    this.#showOutbox();
  }

  // --- What a person does ---

  /** Label what is on the stage. @param {string|null} name - Null takes the label away. */
  label(name) {
    const {card, scene} = this.stage;
    if (scene.kind === 'sheet') return this.#labelSheet(name);
    if (!card) return;
    const before = this.#send([card.row], name, card.way, aboutOf(card));
    this.done.push({rows: [card.row], before, card, scene});
    say(`Row ${brief(card.id)}: ${name === null ? 'no label' : brief(name)}` + verdict(card, name));
    this.stage.goOn(true);
  }
  #labelSheet(name) {
    const {scene, queue} = this.stage, {rows} = scene;
    const before = this.#send(rows, name, 'loop', {id: '', picture: this.state.start.pictures});
    this.done.push({rows, before, scene});
    say(`${howMany(rows.length, 'row')}: ${brief(name)}`);
    queue.drop(new Set(rows));
    this.stage.showQueue();
  }

  skip() {
    const {stage} = this, {card} = stage;
    if (!card) return;
    if (stage.isQueue) {
      this.#add('/api/skip', {row: card.row, seen: this.state.version}, aboutOf(card));
      this.done.push({rows: [], before: [], card, scene: stage.scene});
      say(`Row ${brief(card.id)}: skipped`);
    }
    stage.goOn(false);
  }

  /** Keep a label that looked doubtful. */
  keep() {
    const {card} = this.stage;
    this.#add('/api/keep', {row: card.row, seen: this.state.version}, aboutOf(card));
    this.done.push({rows: [], before: [], card, scene: this.stage.scene});
    say(`Row ${brief(card.id)}: its label is kept`);
    this.stage.goOn(true);
  }

  /** Undo the last action of this window. */
  undo() {
    const last = this.done.pop();
    this.#add('/api/undo', {event: null}, {known: Boolean(last)});
    if (!last) return;
    const {rows, before, card, scene} = last;
    if (rows.length) {
      this.map.setLabels(rows, before);
      this.recent.undo(rows[0]);
    }
    say('Undone' + (card ? `: row ${brief(card.id)}` : ''));
    if (!card) return this.stage.show(scene);
    if (rows.length) [card.label] = before;
    this.stage.bringBack(card, scene);
  }

  /** Undo one action, that labelled many rows. @param {{event: number}} together */
  undoTogether({event}) {
    this.#add('/api/undo', {event}, {known: true});
    this.done = [];
    this.stage.leave();
  }

  #add(path, body, about) { return this.outbox.add(path, {window: this.window, ...body}, about); }

  // Show labels at once, send them, and return the labels that were there.
  #send(rows, label, way, about) {
    const {classes, version: seen} = this.state, before = rows.map(row => this.map.labelOf(row));
    if (label !== null && !classes.includes(label)) this.onClasses([...classes, label]);
    const what = {...about, row: rows[0], count: rows.length, label, way, window: this.window, seen};
    this.map.setLabels(rows, rows.map(() => label));
    const entry = this.#add('/api/label', {rows, label, way, seen}, what);
    this.shown.set(entry.body.key, this.recent.add({...what, state: entry.state}));
    return before;
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
    if (entry.path !== '/api/undo' || !answer.rows?.length) return;
    this.map.setLabels(answer.rows, answer.labels);
    // After a reload only the server knows what the last action was.
    if (!entry.about.known) this.stage.openRow(answer.rows[0], 'recent');
  }

  #refused(entry, refusal) {
    const own = this.shown.get(entry.body.key);
    Object.assign(own ?? {}, {state: 'refused'});
    if (refusal.status === 404 && entry.path === '/api/undo') return say('There is nothing to undo.');
    // What was shown at once is not so.
    this.map.reload().catch(tell);
    if (refusal.status === 409 && isLabel(entry)) this.#tellConflict(entry, refusal.body, own);
    else tell(refusal);
  }

  #tellConflict({body, about}, {conflicts, version}, own) {
    this.onAnswer({version});
    const [first] = conflicts, {rows, label, way} = body;
    const theirs = first.label === null ? ['took its label away'] : ['labelled it ', isolated(brief(first.label))];
    const more = conflicts.length > 1 ? [` (and changed ${count(conflicts.length - 1)} more of these rows)`] : [];
    const close = event => {
      closeNotice(event);
      if (own) this.recent.remove(own);
    };
    notify('conflict-' + newKey(), ['Row ', isolated(brief(first.id)), ': another window ', ...theirs, ...more,
      '. Yours, ', label === null ? 'no label' : isolated(brief(label)), ', is not saved.'], {bad: true, actions: [
      ['use mine', event => {
        close(event);
        this.done.push({rows, before: this.#send(rows, label, way, about), scene: this.stage.scene});
      }],
      ['keep theirs', close]]});
  }
}

// An audit row's guess was hidden; now it may be told.
function verdict({hidden, likely}, name) {
  if (!hidden || !likely?.length) return '';
  const [[guess]] = likely;
  return guess === name ? '. The model had guessed the same.' : `. The model had guessed ${brief(guess)}.`;
}
