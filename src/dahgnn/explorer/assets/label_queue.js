// The rows that come next. A few lie ready with their pictures, so that the next card shows at once.
import {send} from './label_api.js';
import {pictureAddress} from './label_parts.js';

// The server takes a short list; what it hands out although it was decided is left aside here.
const READY = 3, MOST_PENDING = 16;

/** Load a card's picture, so that it is there when the card is shown. */
export function preload(card) {
  if (!card.picture) return card;
  card.image = new Image();
  card.image.src = pictureAddress(card.row, 320);
  card.image.decode().catch(() => { /* the card says that it has no picture */ });
  return card;
}

export class CardQueue {
  /**
   * @param {string} window
   * @param {() => number[]} pending - Rows that were decided, but the server may not know it yet.
   * @param {() => void} onChange
   */
  constructor(window, pending, onChange) {
    Object.assign(this, {window, pending, onChange, cards: [], left: null, asking: null, trouble: null});
  }

  get current() { return this.cards[0] ?? null; }

  /** Go to the next card. */
  advance() {
    this.cards.shift();
    this.fill();
  }

  /** Put a card on top again. */
  putBack(card) {
    this.cards = [card, ...this.cards.filter(each => each.row !== card.row)];
  }

  /** Take a row out that was labelled in another way. */
  drop(rows) {
    const [current] = this.cards;
    this.cards = this.cards.filter(card => card === current || !rows.has(card.row));
    this.fill();
  }

  /** Ask for as many cards as are missing; with renew, for others in place of those that nobody has seen. */
  async fill(renew = false) {
    this.again ||= renew;
    if (this.asking) return this.asking;
    const fresh = this.again, have = this.cards.slice(0, fresh ? 1 : READY).map(card => card.row);
    if (!fresh && have.length >= READY) return;
    this.again = false;
    this.asking = send('/api/next', {window: this.window, count: READY - have.length,
      have: [...new Set([...have, ...this.pending().slice(-MOST_PENDING)])]});
    try {
      const {cards, left} = await this.asking;
      this.#take(cards, left, fresh);
    } catch (trouble) {
      this.trouble = trouble;
    } finally {
      this.asking = null;
    }
    this.onChange();
    if (!this.trouble && (this.again || this.cards.length < READY && this.left > this.cards.length && this.came))
      this.fill();
  }

  #take(cards, left, fresh) {
    if (fresh && cards.length) this.cards = this.cards.slice(0, 1);
    const held = new Set([...this.cards.map(card => card.row), ...this.pending()]);
    const news = cards.filter(card => !held.has(card.row));
    this.cards.push(...news.map(preload));
    Object.assign(this, {left, trouble: null, came: news.length > 0});
  }
}
