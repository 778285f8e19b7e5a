// The map of all rows: its colours, its legend, and the box at the row under the pointer.
import {brief, button, count, isolated, make, percent, placeBeside} from './elements.js';
import {createMap} from './map.js';
import {RAMPS, classKey, classLooks, rampKey, rampLooks} from './map_colours.js';
import {MARKS} from './map_painters.js';
import {ask, askBytes} from './label_api.js';
import {find, idOf, keycap, thumbnail} from './label_parts.js';
import {readPlaces, readRows, usualRange} from './label_rows.js';

const MODES = {class: 'class', confidence: 'confidence', density: 'density', given: 'given label'};
// Above so many rows all points are coloured anew; below, these alone.
const MOST_CHANGED = 2000, MOST_KEYS = 24, RING = MARKS.indexOf('ring'), TIP_AFTER = 70;

export class LabelMap {
  /**
   * @param {object} options
   * @param {() => string[]} options.classes
   * @param {() => boolean} options.pictures - Whether rows have pictures.
   * @param {() => [number[], string|null][]} options.pending - Rows and labels that are still on their way.
   * @param {(row: number) => void} options.onChoose
   * @param {(rows: Int32Array) => void} options.onLoop
   */
  constructor(options) {
    Object.assign(this, {options, mode: 'class', only: null, raised: null, map: null, rows: null, tipped: 0});
    find('modes').replaceChildren(...Object.entries(MODES).map(([mode, text]) => {
      const element = button(text, 'mode', () => this.setMode(mode));
      element.dataset.mode = mode;
      return element;
    }), keycap('M'));
    for (const element of document.querySelectorAll('[data-zoom]')) element.addEventListener('click', () => {
      if (Number(element.dataset.zoom)) this.map?.zoom(Number(element.dataset.zoom));
      else this.map?.showAll();
    });
    for (const kind of ['scroll', 'resize']) addEventListener(kind, () => this.#leave(), {passive: true});
  }

  /** Fetch places and rows, and draw the map. @param {{version: number}} map @param {number} n */
  async load({version}, n) {
    const [places] = await Promise.all([this.#places(version, n), this.reload(false)]);
    this.version = version;
    this.map ??= createMap(find('points'), {...places, name: `Map of ${count(n)} rows`,
      describe: row => this.#describe(row),
      onPoint: row => this.#point(row),
      onChoose: row => { this.#leave(); this.options.onChoose(row); },
      onLoop: rows => this.options.onLoop(rows),
      onLoopMode: on => find('loop').setAttribute('aria-pressed', on)});
    this.setMode(this.mode);
  }

  /** Fetch labels and guesses again. */
  async reload(draw = true) {
    this.rows = readRows(await askBytes('/api/map/rows'));
    // The server does not know of these yet.
    for (const [rows, label] of this.options.pending())
      for (const row of rows) this.rows.label[row] = this.options.classes().indexOf(label);
    const {confidence, density} = this.rows;
    this.ranges = {confidence: [usualRange(confidence, 0)[0], 1], density: usualRange(density)};
    if (draw) this.#draw();
  }

  /** Move the rows to better places. @param {{version: number}} map */
  async move({version}) {
    if (!this.map || version === this.version) return;
    const {x, y} = await this.#places(version, this.rows.n);
    this.version = version;
    this.map.setPlaces(x, y);
  }
  #places = async (version, n) => readPlaces(await askBytes(`/api/map/places?version=${version}`), n);

  /** Set the labels of some rows. @param {number[]} rows @param {(string|null)[]} labels - One each. */
  setLabels(rows, labels) {
    if (!this.rows) return;
    const {label, by} = this.rows, places = new Map(this.options.classes().map((name, place) => [name, place]));
    rows.forEach((row, at) => {
      this.#count(row, -1);
      label[row] = labels[at] === null ? -1 : places.get(labels[at]) ?? -1;
      by[row] = label[row] < 0 ? 0 : 2;
      this.#count(row, 1);
    });
    if (!this.map) return;
    if (rows.length > MOST_CHANGED) return this.#draw();
    rows.forEach(row => this.#look(row));
    this.map.changeLooks(rows);
    this.#drawLegend();
  }

  /** Return the name of a row's label, or null. @param {number} row */
  labelOf(row) {
    return this.options.classes()[this.rows?.label[row] ?? -1] ?? null;
  }

  setMode(mode) {
    Object.assign(this, {mode, only: null});
    for (const element of find('modes').querySelectorAll('[data-mode]'))
      element.setAttribute('aria-pressed', element.dataset.mode === mode);
    if (this.map) this.#draw();
  }

  nextMode() {
    const modes = Object.keys(MODES), mode = modes[(modes.indexOf(this.mode) + 1) % modes.length];
    this.setMode(mode);
    return MODES[mode];
  }

  /** Let some rows stand out, and the others turn grey; null is all. @param {ArrayLike<number>|null} rows */
  raise(rows) {
    if (rows === this.raised) return;
    Object.assign(this, {raised: rows, only: null});
    if (this.map) this.#draw();
  }

  /** Ring a row; −1 is none. @param {number} row @param {boolean} [reach] - Pan to it, if it cannot be seen. */
  choose(row, reach = false) {
    this.map?.setChosen(row);
    if (reach) this.map?.reach(row);
  }
  link(links) { this.map?.setChosen(this.map.chosen, links); }
  toggleLoop() {
    if (!this.map) return false;
    this.map.setLoopMode(!this.map.loopMode);
    if (this.map.loopMode) find('points').scrollIntoView({block: 'nearest'});
    return this.map.loopMode;
  }
  get isLooping() { return this.map?.loopMode ?? false; }

  // --- Looks ---

  // Return the class by which a row is coloured.
  #placeOf(row) {
    const {label, guess} = this.rows;
    return label[row] >= 0 || this.mode === 'given' ? label[row] : guess[row];
  }

  #draw() {
    const {rows, mode} = this, n = rows.n, nClasses = this.options.classes().length, marks = new Uint8Array(n);
    const places = mode in RAMPS ? null : new Int16Array(n);
    this.counts = new Int32Array(nClasses + 1);
    for (let row = 0; row < n; row++) {
      if (rows.label[row] >= 0) marks[row] = RING;
      if (places) this.counts[(places[row] = this.#placeOf(row)) + 1]++;
    }
    const looks = places ? classLooks(places, nClasses) : rampLooks(mode, rows[mode], this.ranges[mode]);
    const raised = this.raised || this.only !== null ? new Uint8Array(n) : undefined;
    if (this.raised) for (const row of this.raised) raised[row] = 1;
    else if (raised) for (let row = 0; row < n; row++) raised[row] = places[row] === this.only ? 1 : 0;
    this.looks = {...looks, marks, raised};
    this.map.setLooks(this.looks);
    this.#drawLegend();
  }

  // Change what the arrays of looks say of one row.
  #look(row) {
    const {looks, rows, mode} = this, isRamp = mode in RAMPS;
    const one = isRamp ? rampLooks(mode, [rows[mode][row]], this.ranges[mode]) :
      classLooks([this.#placeOf(row)], this.options.classes().length);
    looks.colours.set(one.colours, 4 * row);
    if (!isRamp) looks.shapes[row] = one.shapes[0];
    looks.marks[row] = rows.label[row] >= 0 ? RING : 0;
  }

  #count(row, change) {
    if (!this.counts || this.mode in RAMPS) return;
    const place = this.#placeOf(row) + 1;
    if (place >= this.counts.length)
      this.counts = Int32Array.from({length: place + 1}, (_, at) => this.counts[at] ?? 0);
    this.counts[place] += change;
  }

  // --- The legend ---

  #drawLegend() {
    const {mode} = this, legend = find('legend');
    if (mode in RAMPS) {
      const known = this.rows.model > 0;
      legend.replaceChildren(...known ? rampKey(mode, this.ranges[mode]) :
        [make('span', '', 'There is no model yet.')]);
      return;
    }
    const places = [...this.counts.keys()].filter(at => this.counts[at]).map(at => at - 1);
    const keys = places.slice(0, MOST_KEYS + 1).map(place => this.#key(place));
    const rest = places.length - keys.length;
    legend.replaceChildren(...keys, ...rest > 0 ? [make('span', '', `… and ${count(rest)} more`)] : []);
  }

  #key(place) {
    const element = button('', 'key', () => {
      this.only = this.only === place ? null : place;
      this.raised = null;
      this.#draw();
    });
    element.append(...classKey(place, this.options.classes()[place] ?? '', this.counts[place + 1]));
    if (place < 0) element.children[1].textContent = this.mode === 'given' ? 'no label' : 'no class yet';
    element.dataset.place = place;
    element.setAttribute('aria-pressed', this.only === place);
    return element;
  }

  // --- The box at the row under the pointer ---

  #describe(row) {
    const {label, guess, confidence} = this.rows, classes = this.options.classes();
    if (label[row] >= 0) return `row ${row}: labelled ${brief(classes[label[row]] ?? '')}`;
    return `row ${row}: ` + (guess[row] < 0 ? 'no label' :
      `guess ${brief(classes[guess[row]] ?? '')}, ${percent(confidence[row])}`);
  }

  #leave() {
    this.tipped++;
    clearTimeout(this.timer);
    find('tip').style.display = 'none';
  }

  #point(row) {
    this.#leave();
    const {tipped} = this;
    if (row >= 0) this.timer = setTimeout(async () => {
      const tip = await ask(`/api/rows/${row}/tip`).catch(() => null);
      if (tip && tipped === this.tipped) this.#showTip(tip);
    }, TIP_AFTER);
  }

  #showTip({row, id, label, predicted, probability, cells}) {
    const lines = [];
    if (label !== null) lines.push(['label', label]);
    if (predicted !== null) lines.push(['guess', `${brief(predicted)}, ${percent(probability)}`]);
    const words = make('div', '', make('b', '', idOf(id)), ...[...lines, ...cells].map(([name, text]) =>
      make('p', '', isolated(brief(name, 40)), ': ', isolated(brief(text)))));
    const tip = find('tip');
    tip.replaceChildren(...this.options.pictures() ? [thumbnail({row, picture: true})] : [], words);
    tip.style.display = 'flex';
    placeBeside(tip, this.map.placeInWindow(row));
  }
}
