// What the person decided and the server has not confirmed yet. It goes out one by one, in order, so that an undo
// follows its label. Nothing leaves the box before an answer has come, and a reload brings it back.
import {Refusal, newKey, remember, remembered, send} from './label_api.js';

/**
 * @typedef {object} Entry
 * @property {string} path - Where it goes.
 * @property {object} body - What goes there; its key makes the server take it once.
 * @property {object} about - What the page knows of it, for the list of recent labels.
 * @property {'saving'|'waiting'|'refused'} state - Waiting is: it failed, and is sent again.
 */

// Milliseconds before the next try; the last counts for all that follow.
const PAUSES = [600, 1500, 3000, 6000];

export class Outbox {
  /**
   * @param {object} listener
   * @param {() => void} listener.onChange
   * @param {(entry: Entry, answer: object) => void} listener.onAnswer
   * @param {(entry: Entry, refusal: Refusal) => void} listener.onRefusal - It will not be sent again.
   */
  constructor(listener) {
    Object.assign(this, {listener, entries: [], trouble: null, tries: 0, busy: false});
  }

  /** Take up what was left when the page was closed. */
  resume() {
    this.entries = (remembered('outbox') ?? []).map(entry => ({...entry, state: 'waiting'}));
    this.#next();
    return this.entries;
  }

  /** Send something as soon as what came before is through. */
  add(path, body, about) {
    const entry = {path, body: {...body, key: newKey()}, about, state: this.trouble ? 'waiting' : 'saving'};
    this.entries.push(entry);
    this.#changed();
    this.#next();
    return entry;
  }

  /** Try again now. */
  retry() {
    clearTimeout(this.timer);
    this.timer = null;
    this.#next();
  }

  async #next() {
    if (this.busy || this.timer || !this.entries.length) return;
    const [entry] = this.entries;
    this.busy = true;
    try {
      const answer = await send(entry.path, entry.body);
      this.#through();
      this.listener.onAnswer(entry, answer);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      if (error.passes) this.#wait(error);
      else {
        entry.state = 'refused';
        this.#through();
        this.listener.onRefusal(entry, error);
      }
    } finally {
      this.busy = false;
    }
    this.#changed();
    this.#next();
  }

  #through() {
    this.entries.shift();
    Object.assign(this, {trouble: null, tries: 0});
    for (const each of this.entries) each.state = 'saving';
  }

  #wait(trouble) {
    this.trouble = trouble;
    for (const each of this.entries) each.state = 'waiting';
    this.timer = setTimeout(() => this.retry(), PAUSES[Math.min(this.tries++, PAUSES.length - 1)]);
  }

  #changed() {
    remember('outbox', this.entries.map(({path, body, about}) => ({path, body, about})));
    this.listener.onChange();
  }
}
