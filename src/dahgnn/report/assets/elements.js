// Small parts that pages are made of. Text only ever becomes text, never markup.

export const percent = share => (100 * share).toFixed(1) + '\u00a0%';
export const count = number => number.toLocaleString('en');

/** Return text that has at most so many letters. @param {string} text @param {number} most */
export function brief(text, most = 80) {
  const letters = [...text.slice(0, 2 * most + 2)];
  return letters.length > most ? letters.slice(0, most - 1).join('') + '…' : text;
}

/**
 * Make an element.
 *
 * @param {string} name
 * @param {string} [kind] - Its class in the style sheet.
 * @param {...(Node|string)} children - A string becomes text.
 */
export function make(name, kind, ...children) {
  const element = document.createElement(name);
  if (kind) element.className = kind;
  element.append(...children);
  return element;
}

/** Make a button. @param {Node|string} text @param {string} kind @param {() => void} act */
export function button(text, kind, act) {
  const element = make('button', kind, text);
  element.type = 'button';
  element.addEventListener('click', act);
  return element;
}

// An element of its own keeps letters of the data that run from right to left from turning what follows.
export const isolated = text => make('bdi', '', text);

/** Return text of the data in a box of bounded width, longer in its tooltip. @param {string} text */
export function cut(text) {
  const element = make('bdi', 'cut', brief(text));
  element.title = brief(text, 300);
  return element;
}

/** Move a box that is shown beside a place in the window, so that the window holds it. */
export function placeBeside(box, [left, top]) {
  const {width, height} = box.getBoundingClientRect(), gap = 16;
  const fit = (at, length, room) =>
    Math.max(4, Math.min(at + gap + length > room ? at - gap - length : at + gap, room - length - 4));
  box.style.left = fit(left, width, innerWidth) + 'px';
  box.style.top = fit(top, height, innerHeight) + 'px';
}
