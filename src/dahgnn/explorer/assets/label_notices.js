// Sentences across the page: what went wrong, what it means, and what can be done. Each has a name, so that a
// newer one takes its place.
import {button, make} from './elements.js';
import {find} from './label_parts.js';

/**
 * Show a notice in place of the one of the same name.
 *
 * @param {string} name
 * @param {(Node|string)[]} words
 * @param {object} [options]
 * @param {boolean} [options.bad] - Whether something went wrong.
 * @param {[string, () => void][]} [options.actions] - Texts of buttons, and what they do.
 * @param {boolean} [options.closes] - Whether the person may close it.
 */
export function notify(name, words, {bad = false, actions = [], closes = false} = {}) {
  const text = make('p', '', ...words), element = make('div', bad ? 'notice bad' : 'notice', text);
  element.dataset.name = name;
  element.setAttribute('role', bad ? 'alert' : 'status');
  for (const [label, act] of actions) element.append(button(label, 'mode', act));
  if (closes) {
    const close = button('×', 'mode', () => element.remove());
    close.setAttribute('aria-label', 'Close this notice');
    element.append(close);
  }
  const old = shown(name);
  if (old?.textContent === element.textContent) old.querySelectorAll('button').length || old.replaceWith(element);
  if (!old) find('notices').append(element);
  else if (old.isConnected) old.replaceWith(element);
}
const shown = name => [...find('notices').children].find(element => element.dataset.name === name);

/** Take a notice away. @param {string} name */
export function forget(name) {
  shown(name)?.remove();
}

/** Take away all notices that may be closed; return whether there was any. */
export function closeNotices() {
  const closing = [...find('notices').querySelectorAll('[aria-label="Close this notice"]')];
  closing.forEach(element => element.click());
  return closing.length > 0;
}
