// Sentences across the page: what went wrong, what it means, and what can be done. Each has a name, so that a
// newer one takes its place.
import {button, make} from './elements.js';
import {Refusal} from './label_api.js';
import {find} from './label_parts.js';

export const noSession = 'This page may not talk to its server any more. Take a fresh address from the ' +
  'terminal where dahgnn label runs.';

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
  if (!old) find('notices').append(element);
  // The same again would be read aloud again, and take the focus from its buttons.
  else if (old.textContent !== element.textContent) old.replaceWith(element);
}
const shown = name => [...find('notices').children].find(element => element.dataset.name === name);

/** Say why the server refused something; other errors are mistakes of the page. @param {Error} error */
export function tell(error) {
  if (!(error instanceof Refusal)) throw error;
  if (error.status === 401) notify('session', [noSession], {bad: true});
  else notify('trouble', [error.message], {bad: true, closes: true});
}

/** Take away the notice that holds a button which was pressed. @param {Event} event */
export const closeNotice = event => event.currentTarget.closest('.notice').remove();

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
