// A map of points to look at: zoom, pan, point at, choose, and draw a loop around some.
// It knows nothing of what the points are. It sets no markup, and its texts are set as text.
import {indexPoints} from './map_index.js';
import {compose, composeSome, createPainter} from './map_painters.js';
import {MapView} from './map_view.js';

/**
 * @typedef {object} MapOptions
 * @property {Float32Array} x - Where each point stands; finite.
 * @property {Float32Array} y - The same, upwards.
 * @property {string} name - What a screen reader calls the map.
 * @property {(point: number) => string} describe - What it says of a point.
 * @property {(point: number) => void} [onPoint] - A point is pointed at; −1 is none.
 * @property {(point: number, touch: boolean) => void} [onChoose] - A point is clicked, or chosen by Enter.
 * @property {(points: Int32Array) => void} [onLoop] - A loop is drawn around these.
 * @property {(on: boolean) => void} [onLoopMode] - Whether the next drag draws a loop.
 * @property {boolean} [plain] - Whether to do without WebGL.
 */

/**
 * Fill an element, which has a height, with a map.
 *
 * @param {HTMLElement} element
 * @param {MapOptions} options
 * @returns {PointMap}
 */
export function createMap(element, options) {
  return new PointMap(element, options);
}

// How near the pointer must be to a point, and how far it must move to drag, in pixels.
const REACH = 14, LEAST_DRAG = 5;
// While the map moves it may paint part of its points, at least so many, and all once it rests so long.
const LEAST_PAINTED = 20000, REST = 160, FRAME = 30;
// Points of this size are too small for rings, which would blacken a crowd.
const FAINT_SIZE = 3, MARKED = 1.4;
// Points glide to new places in so many milliseconds; more than so many jump.
const GLIDE = 700, MOST_MOVED = 100000;
const STEP = 1.5;
const KEYS = {'+': STEP, '=': STEP, '-': 1 / STEP, '_': 1 / STEP};
const ARROWS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};

class PointMap {
  constructor(element, options) {
    this.element = element;
    this.options = options;
    this.n = options.x.length;
    this.pointers = new Map();
    Object.assign(this, {pointed: -1, chosen: -1, links: [], loop: null, loopMode: false, aiming: false});
    // Pace is milliseconds to a point.
    Object.assign(this, {pace: 0, moving: false, marked: 0, fresh: [], move: null});
    this.view = new MapView(this.#placePoints(options.x, options.y));
    this.index = indexPoints(this.x, this.y);
    this.#build();
    this.#listen();
    this.#measure();
    this.setLooks({colours: new Uint8Array(4 * this.n).fill(128)});
  }

  // --- What a page calls ---

  /** Change how points look. @param {import('./map_painters.js').PointLooks} looks */
  setLooks(looks) {
    const composed = compose(looks, this.n);
    Object.assign(this, {looks, marked: composed.marked});
    this.painter.setLooks(composed);
    this.repaint();
  }

  /**
   * Show that the page has changed the looks of a few points, in the arrays that it gave. Marked ones are painted
   * onto the picture that is there, which takes no longer where there are a million others.
   *
   * @param {number[]} points
   */
  changeLooks(points) {
    const looks = composeSome(this.looks, points);
    this.painter.changeLooks(points, looks);
    this.fresh.push(...points);
    // What a mark that is taken away had covered must be painted again.
    this.stale ||= looks.shapes.some(form => form < 4);
    this.#retrace();
  }

  /**
   * Move the points to new places, and keep the zoom.
   *
   * @param {Float32Array} x
   * @param {Float32Array} y
   */
  setPlaces(x, y) {
    const from = [this.x, this.y];
    this.view.setSpans(this.#placePoints(x, y));
    this.index = indexPoints(this.x, this.y);
    const quick = this.n > MOST_MOVED || matchMedia('(prefers-reduced-motion: reduce)').matches;
    this.move = quick ? null : {from, to: [this.x, this.y], start: performance.now()};
    if (quick) this.painter.setPlaces(this.x, this.y);
    this.#moved();
  }

  /**
   * Mark a point as chosen, with lines to others; −1 is none.
   *
   * @param {number} point
   * @param {number[][]} links - Pairs of another point and how strong its line is, from 0 to 1.
   */
  setChosen(point, links = []) {
    Object.assign(this, {chosen: point, links});
    this.#retrace();
  }

  /** Ring a point as if it were pointed at; −1 is none. @param {number} point */
  setPointed(point) {
    this.pointed = point;
    this.#retrace();
  }

  /** Say whether the next drag draws a loop, as it does while Shift is held. @param {boolean} on */
  setLoopMode(on) {
    this.loopMode = on;
    this.#setTouch();
    this.options.onLoopMode?.(on);
  }

  /** Show all points. */
  showAll() {
    this.view.showAll();
    this.#moved();
  }

  /** Zoom to some points. @param {ArrayLike<number>} points */
  showPoints(points) {
    const of = values => ends(Float32Array.from(points, i => values[i]));
    this.view.showBox(of(this.x), of(this.y));
    this.#moved();
  }

  /** Pan so that a point can be seen, if it cannot. @param {number} point */
  reach(point) {
    const [px, py] = this.placeOf(point), {width, height} = this.view, edge = 12;
    if (px > edge && py > edge && px < width - edge && py < height - edge) return;
    Object.assign(this.view, {x: this.x[point], y: this.y[point]});
    this.#moved();
  }

  /**
   * Zoom, and keep a place where it is.
   *
   * @param {number} factor
   * @param {number[]} [place] - Pixels from the left and the top; the middle by default.
   */
  zoom(factor, place) {
    this.view.zoomAt(factor, place ?? this.view.middle);
    this.#moved();
  }

  /** Move the view by pixels to the right and down. @param {number} across @param {number} down */
  pan(across, down) {
    this.view.pan(across, down);
    this.#moved();
  }

  /** Return where a point stands, in pixels from the left and the top. @param {number} point */
  placeOf(point) { return this.view.pixelsOf(this.x[point], this.y[point]); }

  /** Return where a point stands in the window. @param {number} point */
  placeInWindow(point) {
    const box = this.canvas.getBoundingClientRect(), [px, py] = this.placeOf(point);
    return [box.left + px, box.top + py];
  }

  /** Paint with the next frame, once for all changes until then. */
  repaint() {
    this.stale = true;
    this.#retrace();
  }

  /** Take the map away. */
  destroy() {
    this.stop.abort();
    this.observer.disconnect();
    cancelAnimationFrame(this.waiting);
    clearTimeout(this.rest);
    this.element.replaceChildren();
  }

  // --- Places and painting ---

  // From −1 to 1 around the middle, as single precision is finest there. Returns how far they reach.
  #placePoints(x, y) {
    const [left, right] = ends(x), [bottom, top] = ends(y);
    const half = Math.max(right - left, top - bottom) / 2 || 1;
    this.x = x.map(at => (at - (left + right) / 2) / half);
    this.y = y.map(at => (at - (bottom + top) / 2) / half);
    return [(right - left) / half || 1, (top - bottom) / half || 1];
  }

  #build() {
    const {element, options} = this;
    this.canvas = document.createElement('canvas');
    this.over = shape('svg', {'aria-hidden': 'true'});
    this.said = Object.assign(document.createElement('div'), {className: 'point-map-said'});
    this.said.setAttribute('role', 'status');
    element.classList.add('point-map');
    element.tabIndex = 0;
    element.setAttribute('role', 'application');
    element.setAttribute('aria-roledescription', 'map');
    element.setAttribute('aria-label', options.name + '. Plus and minus zoom, the arrows move, 0 shows all, ' +
      'Enter chooses the point nearest to the middle.');
    element.replaceChildren(this.canvas, this.over, this.said);
    this.painter = createPainter(this.canvas, this.x, this.y, options.plain);
    // A browser takes the context away from pages that it has forgotten; the plain canvas stays.
    this.canvas.addEventListener('webglcontextlost', () => this.#paintPlainly());
  }

  #paintPlainly() {
    const canvas = document.createElement('canvas');
    this.canvas.replaceWith(canvas);
    this.canvas = canvas;
    this.painter = createPainter(canvas, this.x, this.y, true);
    this.move = null;
    this.#measure();
    this.setLooks(this.looks);
  }

  #measure() {
    const {view} = this, {clientWidth, clientHeight} = this.element;
    view.setSize(clientWidth, clientHeight, window.devicePixelRatio || 1);
    this.canvas.width = Math.round(view.width * view.ratio);
    this.canvas.height = Math.round(view.height * view.ratio);
    this.#moved();
  }

  #moved() {
    this.moving = true;
    this.#setTouch();
    this.repaint();
  }

  // Where all points are shown one finger scrolls the page, else it moves the map.
  #setTouch() {
    this.element.style.touchAction = this.view.isWhole && !this.loopMode ? 'pan-y' : 'none';
  }

  // Crowds get smaller points, and points grow a little as one comes nearer.
  #size(n) {
    const {width, zoom} = this.view;
    const room = width < 480 ? 0.8 : Math.max(1, Math.min(2, width / 1200));
    const size = Math.min(9, Math.max(2, 8 * (3000 / n) ** 0.3));
    return room * size * Math.max(1, Math.min(2.5, zoom ** 0.3));
  }

  // Trace shapes over the points with the next frame. The points themselves are painted only if they changed.
  #retrace() {
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = null;
      this.#paint();
    });
  }

  #paint() {
    if (this.stale || this.fresh.length) this.#paintPoints();
    this.over.replaceChildren(...this.#shapesOver());
  }

  #paintPoints() {
    const ink = getComputedStyle(this.element).color.match(/[\d.]+/g).slice(0, 3).map(Number);
    // A marked point is larger, so that its colour can be seen inside the mark; few among many stand out so.
    const size = this.#size(this.n), markedSize = Math.max(MARKED * size, this.#size(this.marked));
    const strength = Math.max(0, Math.min(1, (markedSize / MARKED - FAINT_SIZE) / 3));
    const view = {...this.view, size, markedSize, ink, strength}, {fresh, stale} = this;
    Object.assign(this, {fresh: [], stale: false});
    if (this.move) this.#glide();
    if (stale) this.#paintMany(view);
    else this.painter.paintSome(view, fresh);
  }

  // A frame ends when the next begins, however its work is shared between processors.
  #paintMany(view) {
    const start = performance.now(), painted = this.#budget();
    this.painter.paint(view, painted);
    requestAnimationFrame(() => { this.pace = (performance.now() - start) / painted; });
  }

  // Place the points on their way, and come back with the next frame until they are there.
  #glide() {
    const {from, to, start} = this.move, share = Math.min(1, (performance.now() - start) / GLIDE);
    const eased = share * share * (3 - 2 * share);
    const between = axis => to[axis].map((at, i) => from[axis][i] + eased * (at - from[axis][i]));
    this.painter.setPlaces(...share < 1 ? [between(0), between(1)] : to);
    if (share < 1) this.#moved();
    else this.move = null;
  }

  // Return how many points to paint: all, or while the map moves as many as keep its frames quick.
  #budget() {
    if (!this.moving) return this.n;
    clearTimeout(this.rest);
    this.rest = setTimeout(() => {
      this.moving = false;
      this.repaint();
    }, REST);
    return Math.round(Math.min(this.n, Math.max(LEAST_PAINTED, FRAME / this.pace)));
  }

  #shapesOver() {
    const shapes = [], ring = (point, r, kind) => {
      const [cx, cy] = this.placeOf(point);
      shapes.push(shape('circle', {cx, cy, r, class: kind}));
    };
    if (this.chosen >= 0) {
      const [x1, y1] = this.placeOf(this.chosen);
      for (const [point, share] of this.links) {
        const [x2, y2] = this.placeOf(point);
        shapes.push(shape('line', {x1, y1, x2, y2, 'stroke-width': 0.8 + 3.2 * share,
          'stroke-opacity': 0.35 + 0.5 * share}));
        ring(point, 5, 'linked');
      }
      ring(this.chosen, 10, 'chosen');
    }
    if (this.pointed >= 0) ring(this.pointed, 9, 'pointed');
    if (this.loop) shapes.push(shape('path', {d: 'M' + this.loop.map(at => at.join(' ')).join('L') + 'Z'}));
    if (this.aiming) {
      const [px, py] = this.view.middle;
      shapes.push(shape('path', {class: 'aim', d: `M${px - 9} ${py}h18M${px} ${py - 9}v18`}));
    }
    return shapes;
  }

  // --- What a user does ---

  #listen() {
    this.stop = new AbortController();
    const {signal} = this.stop, on = (kind, act, more = {}) =>
      this.element.addEventListener(kind, act.bind(this), {signal, ...more});
    on('pointerdown', this.#press);
    on('pointermove', this.#move);
    on('pointerup', this.#release);
    on('pointercancel', this.#forget);
    on('pointerleave', event => { if (event.pointerType === 'mouse') this.#point(-1); });
    on('wheel', this.#turn, {passive: false});
    on('keydown', this.#type);
    on('focus', this.#aim);
    on('blur', () => { this.aiming = false; this.#point(-1); this.#retrace(); });
    this.observer = new ResizeObserver(() => this.#measure());
    this.observer.observe(this.element);
    addEventListener('resize', () => this.#measure(), {signal});
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.repaint(), {signal});
  }

  #at(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  #nearest(place, reach = REACH) {
    return this.index.nearest(...this.view.placeAt(place), reach / this.view.scale);
  }

  #point(point) {
    if (point === this.pointed) return;
    this.pointed = point;
    this.#retrace();
    this.options.onPoint?.(point);
  }

  #press(event) {
    if (event.button !== 0) return;
    const place = this.#at(event);
    this.element.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, {place, start: place});
    if (this.pointers.size === 1 && (event.shiftKey || this.loopMode)) this.loop = [place];
    // A second finger pinches: what the first began is off.
    if (this.pointers.size > 1) this.loop = null;
    this.dragged = this.pointers.size > 1;
  }

  #move(event) {
    const place = this.#at(event), pointer = this.pointers.get(event.pointerId);
    if (!pointer) {
      this.#point(this.#nearest(place));
      return;
    }
    this.dragged ||= apart(place, pointer.start) > LEAST_DRAG;
    const before = pointer.place;
    if (this.pointers.size > 1) this.#pinch(pointer, place);
    pointer.place = place;
    if (this.pointers.size > 1 || !this.dragged) return;
    this.#point(-1);
    if (!this.loop) this.pan(before[0] - place[0], before[1] - place[1]);
    // Corners nearer than this cost time, and nobody sees them.
    else if (apart(place, this.loop.at(-1)) > 3) this.loop.push(place);
    this.#retrace();
  }

  #pinch(pointer, place) {
    const other = [...this.pointers.values()].find(each => each !== pointer).place;
    const [was, is] = [apart(pointer.place, other), apart(place, other)];
    this.pan((pointer.place[0] - place[0]) / 2, (pointer.place[1] - place[1]) / 2);
    if (was > 0 && is > 0) this.zoom(is / was, [(place[0] + other[0]) / 2, (place[1] + other[1]) / 2]);
  }

  #release(event) {
    if (!this.pointers.has(event.pointerId)) return;
    const {loop, dragged} = this, touch = event.pointerType !== 'mouse', place = this.#at(event);
    this.#forget(event);
    if (loop && dragged) {
      this.setLoopMode(false);
      this.options.onLoop?.(this.index.inside(loop.map(corner => this.view.placeAt(corner))));
    } else if (!dragged) {
      const point = this.#nearest(place, touch ? 2 * REACH : REACH);
      if (point >= 0) this.options.onChoose?.(point, touch);
    }
  }

  #forget(event) {
    this.pointers.delete(event.pointerId);
    this.loop = null;
    this.#retrace();
  }

  #turn(event) {
    // Where all can be seen, a wheel that would zoom out scrolls the page.
    if (this.view.isWhole && event.deltaY > 0 && !event.ctrlKey) return;
    event.preventDefault();
    const pixels = event.deltaY * (event.deltaMode === 1 ? 18 : event.deltaMode === 2 ? 400 : 1);
    // A pinch on a touch pad comes as a wheel with Ctrl, in small steps.
    this.zoom(Math.exp(-pixels * (event.ctrlKey ? 0.01 : 0.0018)), this.#at(event));
    this.#point(-1);
  }

  #type(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== this.element) return;
    const {key} = event;
    if (key in KEYS) this.zoom(KEYS[key]);
    else if (key in ARROWS) this.pan(...ARROWS[key].map(step => step * 0.12 * this.view.width));
    else if (key === '0') this.showAll();
    else if (key === 'Escape' && this.loopMode) this.setLoopMode(false);
    else if (key === 'Enter' && this.pointed >= 0) this.options.onChoose?.(this.pointed, false);
    else return;
    event.preventDefault();
    this.#aim();
  }

  // With keys, the middle of the map is the pointer.
  #aim() {
    if (!this.element.matches(':focus-visible')) return;
    this.aiming = true;
    this.#point(this.#nearest(this.view.middle, 60));
    this.said.textContent = this.pointed < 0 ? 'no point near the middle' : this.options.describe(this.pointed);
    this.#retrace();
  }
}

function ends(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}
const apart = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]);

function shape(name, values) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(values)) element.setAttribute(key, value);
  return element;
}
