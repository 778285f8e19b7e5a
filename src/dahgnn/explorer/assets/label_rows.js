// What the map knows of each row: its label, who gave it, the model's guess, how sure that is, and its density.

/**
 * Read the bytes of /api/map/rows.
 *
 * @param {ArrayBuffer} bytes
 * @returns {{n: number, version: number, model: number, label: Int16Array, by: Uint8Array, guess: Int16Array,
 *   confidence: Float32Array, density: Float32Array}}
 */
export function readRows(bytes) {
  const [n, version, model] = new Int32Array(bytes, 0, 4);
  let at = 16;
  const next = Kind => {
    const values = new Kind(bytes, at, n);
    // Each array begins at a multiple of four bytes.
    at += Math.ceil(n * Kind.BYTES_PER_ELEMENT / 4) * 4;
    return values;
  };
  const label = next(Int16Array), by = next(Uint8Array), guess = next(Int16Array), sure = next(Uint8Array);
  const density = next(Float32Array), confidence = new Float32Array(n);
  for (let i = 0; i < n; i++) confidence[i] = guess[i] < 0 ? NaN : sure[i] / 255;
  return {n, version, model, label, by, guess, confidence, density};
}

/** Read the bytes of /api/map/places. @param {ArrayBuffer} bytes @param {number} n */
export function readPlaces(bytes, n) {
  return {x: new Float32Array(bytes, 0, n), y: new Float32Array(bytes, 4 * n, n)};
}

/** Return amounts between which nearly all values lie; a few extreme ones would leave one colour for the rest. */
export function usualRange(values, low = 0.02, high = 0.98) {
  const step = Math.max(1, Math.floor(values.length / 20000)), found = [];
  for (let i = 0; i < values.length; i += step) if (!Number.isNaN(values[i])) found.push(values[i]);
  found.sort((a, b) => a - b);
  const at = share => found[Math.round(share * (found.length - 1))];
  return found.length ? [at(low), at(high)] : [0, 0];
}
