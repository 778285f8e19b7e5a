// Small parts of the labelling page. Text of the data only ever becomes text, in an element of its own.
import {brief, cut, isolated, make} from './elements.js';
import {classMark} from './map_colours.js';

export const find = id => document.getElementById(id);

/** Tell a screen reader what happened. @param {string} text */
export function say(text) {
  find('said').textContent = text;
}

const HINT = 3200;
/** Tell everybody what happened, for a moment. @param {string} text */
export function hint(text) {
  const shown = find('hint');
  say(text);
  shown.textContent = text;
  shown.animate([{opacity: 1}, {opacity: 1, offset: 0.85}, {opacity: 0}], {duration: HINT});
}

/** Return a cap of a key as it looks on a keyboard. @param {string} name */
export const keycap = name => make('kbd', '', name);

/** Return the address of a row's picture. @param {number} row @param {number} side - Pixels, at most. */
export const pictureAddress = (row, side) => `/api/rows/${row}/picture?side=${side}`;

/**
 * Return a small picture of a row; what has no picture gets an empty box of the same size.
 *
 * @param {{row: number, picture?: boolean}} of
 * @param {number} [side]
 */
export function thumbnail({row, picture}, side = 96) {
  if (!picture) return make('span', 'thumbnail none');
  const image = Object.assign(make('img', 'thumbnail'), {alt: '', loading: 'lazy', decoding: 'async'});
  image.addEventListener('error', () => image.replaceWith(make('span', 'thumbnail none')), {once: true});
  image.src = pictureAddress(row, side);
  return image;
}

/** Return the name of a class beside its mark. @param {string|null} name @param {number} place */
export const named = (name, place) => make('span', 'named', classMark(place),
  name === null ? make('span', '', 'no label') : cut(name));

/** Return the id of a row as text. @param {string} id @param {number} [most] */
export const idOf = (id, most = 60) => isolated(brief(id, most));

/** Say how many there are: "1 row", "12 rows". @param {number} number @param {string} thing */
export const howMany = (number, thing) => `${number.toLocaleString('en')} ${thing}${number === 1 ? '' : 's'}`;

/** Return a bar as long as a share. @param {number} share - From 0 to 1. */
export function shareBar(share) {
  const bar = make('i', 'share');
  bar.style.width = 100 * Math.max(0, Math.min(1, share)) + '%';
  return bar;
}
