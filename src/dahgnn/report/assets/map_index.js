// Finds points by their places: a grid of squares, each with the points that stand in it.

/**
 * @typedef {object} PointIndex
 * @property {(x: number, y: number, reach: number) => number} nearest
 *   The nearest point that is at most so far away, or −1.
 * @property {(outline: number[][]) => Int32Array} inside
 *   All points inside a closed outline of pairs [x, y], in ascending order.
 */

/**
 * Sort points into squares, about four to a square.
 *
 * @param {Float32Array} x - Places from −1 to 1.
 * @param {Float32Array} y - Places from −1 to 1.
 * @returns {PointIndex}
 */
export function indexPoints(x, y) {
  const n = x.length, side = Math.max(1, Math.min(1024, Math.ceil(Math.sqrt(n / 4))));
  const square = at => Math.max(0, Math.min(side - 1, Math.floor((at + 1) / 2 * side)));
  const {starts, rows} = sortIntoSquares(n, side, i => square(y[i]) * side + square(x[i]));

  function visit(left, right, bottom, top, see) {
    for (let row = square(bottom); row <= square(top); row++) {
      const line = row * side, end = starts[line + square(right) + 1];
      for (let at = starts[line + square(left)]; at < end; at++) see(rows[at]);
    }
  }
  return {
    nearest(px, py, reach) {
      let found = -1, least = reach * reach;
      visit(px - reach, px + reach, py - reach, py + reach, i => {
        const away = (x[i] - px) ** 2 + (y[i] - py) ** 2;
        if (away <= least) [found, least] = [i, away];
      });
      return found;
    },
    inside(outline) {
      const found = [], [xs, ys] = [0, 1].map(axis => outline.map(corner => corner[axis]));
      if (outline.length < 3) return new Int32Array(0);
      visit(Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys), i => {
        if (isInside(outline, x[i], y[i])) found.push(i);
      });
      return Int32Array.from(found).sort();
    },
  };
}

// A counting sort: the points of square s are rows[starts[s]] to rows[starts[s + 1] − 1].
function sortIntoSquares(n, side, squareOf) {
  const starts = new Uint32Array(side * side + 1), rows = new Uint32Array(n), squares = new Uint32Array(n);
  for (let i = 0; i < n; i++) starts[(squares[i] = squareOf(i)) + 1]++;
  for (let s = 0; s < side * side; s++) starts[s + 1] += starts[s];
  const next = starts.slice(0, -1);
  for (let i = 0; i < n; i++) rows[next[squares[i]]++] = i;
  return {starts, rows};
}

// A ray from the point crosses the outline an odd number of times.
function isInside(outline, px, py) {
  let odd = false;
  for (let i = 0, j = outline.length - 1; i < outline.length; j = i++) {
    const [xi, yi] = outline[i], [xj, yj] = outline[j];
    if (yi > py !== yj > py && px < (xj - xi) * (py - yi) / (yj - yi) + xi) odd = !odd;
  }
  return odd;
}
