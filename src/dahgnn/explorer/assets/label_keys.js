// Which key does what. Small letters and digits label, capital letters command.

const DIGITS = [...'123456789'], LETTERS = [...'abcdefghijklmnopqrstuvwxyz'];

/**
 * Give each class its keys: a digit and a letter, as long as there are any.
 *
 * A class that is called by a digit has that digit, 0 included. The others have the first free digits in order,
 * and the first free letter of their names; one with neither gets any free letter. Classes come in the order in
 * which they came up, so that a new one takes no key from an old one.
 *
 * @param {string[]} classes
 * @returns {{digit: string|null, letter: string|null}[]}
 */
export function assignKeys(classes) {
  const taken = new Set(), take = key => (key !== undefined && taken.add(key), key ?? null);
  const free = keys => keys.find(key => !taken.has(key));
  return classes.map(name => {
    const own = /^\d$/.test(name) && !taken.has(name) ? name : null;
    const digit = take(own ?? free(DIGITS));
    const letter = take(free([...name.toLowerCase()].filter(sign => LETTERS.includes(sign))));
    return {digit, letter: digit || letter ? letter : take(free(LETTERS))};
  });
}

/** Return the first key of a class, or null. */
export const keyOf = keys => keys?.digit ?? keys?.letter ?? null;

// Every command, its key as a person reads it, and what it does.
export const COMMANDS = [
  ['likeliest', 'Enter', 'take the likeliest class; among doubtful labels: keep the label'],
  ['undo', 'Backspace', 'undo the last action of this window'],
  ['skip', 'Space', 'skip the row; it comes back when all others are done'],
  ['clear', 'Delete', 'take the label of the row away'],
  ['newClass', 'Shift+N', 'name a class, new or known'],
  ['find', '/', 'find a row by its id'],
  ['recent', 'Shift+R', 'open the last label again; once more, the one before it'],
  ['colour', 'Shift+M', 'colour the map in the next way'],
  ['loop', 'Shift+L', 'draw around rows on the map, to label all of them; also Shift and drag'],
  ['doubtful', 'Shift+D', 'labels that look doubtful'],
  ['changed', 'Shift+C', 'rows whose class changed with the last model'],
  ['queue', 'Shift+F', 'back to the queue'],
  ['train', 'Shift+T', 'train now'],
  ['exports', 'Shift+E', 'export'],
  ['help', '?', 'all keys'],
  ['leave', 'Escape', 'close what is open'],
];
const NAMED = {Enter: 'likeliest', Backspace: 'undo', ' ': 'skip', Delete: 'clear', '/': 'find', '?': 'help',
  Escape: 'leave'};
const CAPITALS = Object.fromEntries(COMMANDS.filter(([, key]) => key.startsWith('Shift+'))
  .map(([name, key]) => [key.at(-1).toLowerCase(), name]));

/**
 * Return what a key on the page means: a command, a class's place, or nothing.
 *
 * @param {{key: string, shiftKey: boolean, ctrlKey: boolean, metaKey: boolean, altKey: boolean}} event
 * @param {{digit: string|null, letter: string|null}[]} keys - Of the classes.
 * @returns {{command: string}|{place: number}|null}
 */
export function meaningOf(event, keys) {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  if (event.key in NAMED) return {command: NAMED[event.key]};
  if (event.key.length !== 1) return null;
  // With Caps Lock a small letter comes as a capital, but without Shift.
  const key = event.key.toLowerCase();
  if (event.shiftKey && key in CAPITALS) return {command: CAPITALS[key]};
  if (event.shiftKey && LETTERS.includes(key)) return null;
  const place = keys.findIndex(({digit, letter}) => key === digit || key === letter);
  return place < 0 ? null : {place};
}
