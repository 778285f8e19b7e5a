// What the page asks of its server, and how it is told that something went wrong.

/** An answer that is no success. Status 0 is a server that did not answer. */
export class Refusal extends Error {
  constructor(status, body) {
    super(body?.error || (status ? `The server answered with status ${status}.` :
      'The server does not answer.'));
    Object.assign(this, {status, body});
  }

  /** Whether the same request may succeed later: nothing was wrong with it. */
  get passes() { return this.status === 0 || this.status === 401 || this.status === 429 || this.status >= 500; }
}

async function answer(path, options) {
  let response;
  try {
    response = await fetch(path, {credentials: 'same-origin', cache: 'no-store', ...options});
  } catch {
    throw new Refusal(0);
  }
  if (response.ok) return response;
  throw new Refusal(response.status, await response.json().catch(() => null));
}

// An answer that breaks off is none.
const whole = reading => reading.catch(() => { throw new Refusal(0); });

/** Get JSON. @param {string} path @param {AbortSignal} [signal] */
export const ask = async (path, signal) => whole((await answer(path, {signal})).json());

/** Get bytes. @param {string} path */
export const askBytes = async path => whole((await answer(path)).arrayBuffer());

/** Send JSON, and return the JSON that answers it. @param {string} path @param {object} body */
export const send = async (path, body) => whole((await answer(path, {method: 'POST',
  headers: {'Content-Type': 'application/json'}, body: JSON.stringify(body)})).json());

/** Return a random UUID, also on a page without the secure context that crypto.randomUUID asks for. */
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = bytes[6] & 15 | 64;
  bytes[8] = bytes[8] & 63 | 128;
  const hex = [...bytes].map(byte => byte.toString(16).padStart(2, '0')).join('');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

/**
 * Return the id of this window. It lives as long as the tab, over reloads.
 *
 * A tab that was duplicated has the id of the first; the lock, which one page holds at a time, tells.
 */
export async function windowId() {
  const kept = remembered('window') ?? newKey();
  const id = await isMine(kept) ? kept : newKey();
  remember('window', id);
  if (id !== kept) remember('outbox', null);
  return id;
}
const isMine = id => new Promise(resolve => {
  if (!navigator.locks) resolve(true);
  else navigator.locks.request('dahgnn-window-' + id, {ifAvailable: true}, lock => {
    resolve(lock !== null);
    return lock && new Promise(() => {});
  }).catch(() => resolve(true));
});

/** Return what this tab keeps under a name, or null. @param {string} name */
export function remembered(name) {
  try { return JSON.parse(sessionStorage.getItem('dahgnn-' + name)); } catch { return null; }
}

/** Keep a value in this tab, over reloads. @param {string} name @param {unknown} value */
export function remember(name, value) {
  try {
    sessionStorage.setItem('dahgnn-' + name, JSON.stringify(value));
  } catch { /* it is full, or forbidden */ }
}
