// The stream of what happens on the server: labels of other windows, training, models, better places.

const KINDS = ['training', 'model', 'label', 'map', 'notice'];
// Milliseconds before a stream that the browser gave up is opened again.
const AGAIN = 2000;

/**
 * Listen to the server, and go on after it was away.
 *
 * @param {Object<string, (data: object) => void>} listeners - By kind of event.
 * @param {() => void} onLost - The stream broke; called once until it is back.
 * @param {() => void} onBack - It is open again; events may have been missed.
 * @returns {Promise<void>} Kept when the stream is open for the first time.
 */
export function listen(listeners, onLost, onBack) {
  let lost = false, source = null, opened = null;
  const first = new Promise(resolve => { opened = resolve; });
  function connect() {
    source = new EventSource('/api/events');
    source.onopen = () => {
      if (lost) onBack();
      lost = false;
      opened();
    };
    source.onerror = () => {
      if (!lost) onLost();
      lost = true;
      // The browser comes back by itself, unless the server answered with a refusal.
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, AGAIN);
    };
    for (const kind of KINDS) source.addEventListener(kind, event => listeners[kind]?.(JSON.parse(event.data)));
  }
  connect();
  return first;
}
