// How a map tells classes and amounts apart: a class has a colour of its own, then one with another shape, then
// none; an amount has its place on a ramp of colours.
import {count, cut, make, percent} from './elements.js';
import {SHAPES} from './map_painters.js';

// The same as COLOURS of html.py.
export const COLOURS = ['#2f7ed8', '#e07b39', '#2ca86b', '#c9499c', '#8a63d2', '#b3912f', '#17a2b8', '#d64545',
  '#706000', '#d800f8', '#c090b8', '#7820f8', '#008000', '#a018b8', '#0050f8', '#904870', '#486090', '#388070',
  '#70a0f8', '#c078f8', '#f86888', '#f858d0', '#a87058', '#a84000'];
export const RAMPS = {confidence: ['#d64545', '#c39a1f', '#2f7ed8'], density: ['#17a2b8', '#8a63d2', '#e0457b']};
const OPACITY = 225, UNTOLD = [128, 134, 145, 120], STEPS = 255;

const parts = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
const isTold = place => place >= 0 && place < COLOURS.length * SHAPES.length;
const shadeOf = place => isTold(place) ? [...parts(COLOURS[place % COLOURS.length]), OPACITY] : UNTOLD;
/** Return the place in SHAPES of a class. @param {number} place */
export const shapeOf = place => isTold(place) ? Math.floor(place / COLOURS.length) : 0;
// The four bytes of a colour as one number, in the order of the machine: a million of them are set in a moment.
const packed = shade => new Uint32Array(Uint8Array.from(shade).buffer)[0];

/**
 * Return colours and shapes of points by their classes.
 *
 * @param {ArrayLike<number>} places - The class of each point; −1 is none.
 * @param {number} nClasses
 * @returns {{colours: Uint8Array, shapes: Uint8Array}}
 */
export function classLooks(places, nClasses) {
  const n = places.length, colours = new Uint8Array(4 * n), shapes = new Uint8Array(n);
  const shades = Uint32Array.from({length: nClasses + 1}, (_, at) => packed(shadeOf(at - 1)));
  const forms = Uint8Array.from({length: nClasses + 1}, (_, at) => shapeOf(at - 1));
  const pixels = new Uint32Array(colours.buffer);
  for (let i = 0; i < n; i++) {
    pixels[i] = shades[places[i] + 1];
    shapes[i] = forms[places[i] + 1];
  }
  return {colours, shapes};
}

/**
 * Return colours of points by an amount.
 *
 * @param {string} name - A name in RAMPS.
 * @param {ArrayLike<number>} values - One a point; NaN is unknown.
 * @param {number[]} range - The amounts at both ends of the ramp.
 * @returns {{colours: Uint8Array}}
 */
export function rampLooks(name, values, [low, high]) {
  const n = values.length, colours = new Uint8Array(4 * n), pixels = new Uint32Array(colours.buffer);
  const shade = (_, at) => packed([...onRamp(name, at / STEPS), OPACITY]);
  const shades = Uint32Array.from({length: STEPS + 1}, shade), none = packed(UNTOLD);
  // Amounts that are all the same stand in the middle.
  const [start, steps] = high > low ? [0, STEPS / (high - low)] : [STEPS / 2, 0];
  for (let i = 0; i < n; i++) {
    const at = Math.round(start + (values[i] - low) * steps);
    pixels[i] = Number.isNaN(values[i]) ? none : shades[Math.max(0, Math.min(STEPS, at))];
  }
  return {colours};
}
function onRamp(name, share) {
  const stops = RAMPS[name].map(parts), at = 2 * share, from = Math.min(1, Math.floor(at)), rest = at - from;
  return [0, 1, 2].map(i => stops[from][i] * (1 - rest) + stops[from + 1][i] * rest);
}

// --- What legends are made of ---

/** Return the mark of a class, in its colour and shape. @param {number} place - −1 is none. */
export function classMark(place) {
  const mark = make('i', 'mark ' + SHAPES[shapeOf(place)]), [red, green, blue, opacity] = shadeOf(place);
  mark.style.setProperty('--c', `rgb(${red} ${green} ${blue} / ${opacity / 255})`);
  return mark;
}

/** Return what stands in the button of a class: its mark, its name, and its number of rows. */
export function classKey(place, name, rows) {
  return [classMark(place), place < 0 ? make('span', '', 'no label') : cut(name), make('small', '', count(rows))];
}

/** Return a ramp with the amounts at its ends. @param {string} name @param {number[]} range */
export function rampKey(name, [low, high]) {
  const text = name === 'confidence' ? percent : value => Number(value.toPrecision(3)).toString();
  const bar = make('div', 'ramp'), ends = name === 'density' && high > low ? ['≤ ', '≥ '] : ['', ''];
  bar.style.background = 'linear-gradient(to right,' + RAMPS[name] + ')';
  return [make('span', '', ends[0] + text(low)), bar, make('span', '', ends[1] + text(high))];
}
