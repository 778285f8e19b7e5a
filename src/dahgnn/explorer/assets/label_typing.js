// What keys do where: typing in a field is typing, a focused button has its own keys, and all else is a command
// or a class.
import {meaningOf} from './label_keys.js';
import {find} from './label_parts.js';

const FIELDS = 'input, textarea, select', OWN_KEYS = 'button, a, summary';
// A key that is held down must not run through the queue.
const REPEATS = new Set(['colour']);

/**
 * Listen to keys.
 *
 * @param {() => object[]} keys - Of the classes.
 * @param {(name: string) => void} onCommand
 * @param {(place: number) => void} onClass
 */
export function listenToKeys(keys, onCommand, onClass) {
  document.addEventListener('keydown', event => {
    if (event.defaultPrevented || event.isComposing || document.querySelector('dialog[open]')) return;
    const {target} = event, meaning = meaningOf(event, keys());
    if (target.matches(FIELDS)) {
      if (event.key === 'Escape') target.blur();
      return;
    }
    if (!meaning || isOwn(event)) return;
    event.preventDefault();
    if (event.repeat && !REPEATS.has(meaning.command)) return;
    if (meaning.command) onCommand(meaning.command);
    else onClass(meaning.place);
  });
  // What was clicked must not keep the Enter and the Space that follow.
  document.addEventListener('click', event => {
    if (event.detail) event.target.closest?.(OWN_KEYS)?.blur();
  });
  document.addEventListener('pointerup', () => {
    const map = find('points');
    if (document.activeElement === map && !map.matches(':focus-visible')) map.blur();
  });
}
function isOwn({key, target}) {
  if (key !== 'Enter' && key !== ' ') return false;
  return target.matches(OWN_KEYS) || target === find('points') && key === 'Enter';
}
