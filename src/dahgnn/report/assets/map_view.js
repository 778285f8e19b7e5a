// The part of a map that is shown: the place in its middle, and how many pixels a unit is long. Places are from
// −1 to 1, upwards; pixels are counted from the left and the top.

const LEAST_ZOOM = 0.8, MOST_ZOOM = 4000, MOST_ZOOM_TO_POINTS = 60, FARTHEST = 1.2;
// How much of the map points fill when all, or some of them, are shown.
const FILLED = 0.92, FILLED_BY_SOME = 0.7;

export class MapView {
  /** @param {number[]} spans - How far the points reach across and up. */
  constructor(spans) {
    Object.assign(this, {spans, x: 0, y: 0, width: 1, height: 1, ratio: 1});
    this.scale = this.home;
  }

  /** The scale at which all points are shown. */
  get home() { return FILLED * Math.min(this.width / this.spans[0], this.height / this.spans[1]); }

  get zoom() { return this.scale / this.home; }

  /** Whether all points are shown. */
  get isWhole() { return this.zoom <= 1.01; }

  get middle() { return [this.width / 2, this.height / 2]; }

  /** Take another size, and keep the zoom. */
  setSize(width, height, ratio) {
    const {zoom} = this;
    Object.assign(this, {width: Math.max(1, width), height: Math.max(1, height), ratio});
    this.scale = zoom * this.home;
  }

  /** Take points that reach elsewhere, and keep the zoom. */
  setSpans(spans) {
    const {zoom, isWhole} = this;
    this.spans = spans;
    this.scale = zoom * this.home;
    if (isWhole) this.showAll();
  }

  showAll() { Object.assign(this, {x: 0, y: 0, scale: this.home}); }

  showBox([left, right], [bottom, top]) {
    Object.assign(this, {x: (left + right) / 2, y: (bottom + top) / 2});
    const room = Math.min(this.width / (right - left || 1e-9), this.height / (top - bottom || 1e-9));
    this.scale = Math.min(FILLED_BY_SOME * room, MOST_ZOOM_TO_POINTS * this.home);
  }

  /** Zoom, and keep a place where it is. @param {number} factor @param {number[]} pixels */
  zoomAt(factor, [px, py]) {
    const scale = Math.max(LEAST_ZOOM * this.home, Math.min(MOST_ZOOM * this.home, this.scale * factor));
    const [across, up] = [px - this.width / 2, this.height / 2 - py];
    this.x += across / this.scale - across / scale;
    this.y += up / this.scale - up / scale;
    this.scale = scale;
  }

  /** Move by pixels to the right and down. */
  pan(across, down) {
    const within = at => Math.max(-FARTHEST, Math.min(FARTHEST, at));
    Object.assign(this, {x: within(this.x + across / this.scale), y: within(this.y - down / this.scale)});
  }

  /** Return the pixels of a place. */
  pixelsOf(x, y) {
    return [this.width / 2 + (x - this.x) * this.scale, this.height / 2 - (y - this.y) * this.scale];
  }

  /** Return the place of pixels. */
  placeAt([px, py]) {
    return [this.x + (px - this.width / 2) / this.scale, this.y - (py - this.height / 2) / this.scale];
  }
}
