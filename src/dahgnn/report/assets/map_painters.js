// Paint points onto a canvas: by WebGL 2, a million of them in a frame, or by the plain canvas where that is
// missing. Both take the same looks and give the same picture, save that crowds are squares on the latter.

/**
 * @typedef {object} PointLooks
 * @property {Uint8Array} colours - Red, green, blue and opacity of each point, 4 n.
 * @property {Uint8Array} [shapes] - Place of each point's shape in SHAPES; 0 by default.
 * @property {Uint8Array} [marks] - Place of each point's mark in MARKS; 0 by default.
 * @property {Uint8Array} [raised] - 1 for points that stand out. The others turn grey, but stay.
 */

/**
 * @typedef {object} Looks
 * @property {Uint8Array} colours - Red, green, blue and opacity of each point, 4 n.
 * @property {Uint8Array} shapes - Of each point, SHAPES' place plus 4 times MARKS' place.
 * @property {Uint32Array} order - The points from the lowest to the uppermost.
 * @property {number} marked - How many points have a mark.
 */

/**
 * @typedef {object} View
 * @property {number} x - The place in the middle of the canvas.
 * @property {number} y - The same, upwards.
 * @property {number} scale - Pixels of the screen to a unit.
 * @property {number} width - Pixels of the screen.
 * @property {number} height - Pixels of the screen.
 * @property {number} ratio - Pixels of the canvas to one of the screen.
 * @property {number} size - Diameter of a point in pixels of the screen.
 * @property {number} markedSize - The same of a marked point.
 * @property {number[]} ink - Red, green and blue of rings and crosses.
 * @property {number} strength - How strong rings are, from 0 to 1.
 */

export const SHAPES = ['disc', 'square', 'diamond', 'triangle'];
export const MARKS = ['none', 'ring', 'cross'];
const GREY = [128, 134, 145, 90];

/**
 * Return what the painters need: grey where a point does not stand out, and what stands out or is marked on
 * top. Else points are mixed, so that no class covers another, and the uppermost are a sample of all.
 *
 * @param {PointLooks} looks
 * @param {number} n
 * @returns {Looks}
 */
export function compose({colours, shapes, marks, raised}, n) {
  const forms = new Uint8Array(n), tints = raised ? colours.slice() : colours;
  const order = new Uint32Array(n), starts = [0, 0, 0, 0], layers = new Uint8Array(n);
  for (let i = 0; i < n; i++) {
    const layer = layers[i] = raised && !raised[i] ? 0 : marks?.[i] ? 2 : 1;
    starts[layer + 1]++;
    forms[i] = (shapes?.[i] ?? 0) | (layer === 2 ? marks[i] << 2 : 0);
    if (layer === 0) tints.set(GREY, 4 * i);
  }
  const marked = starts[3];
  for (let k = 1; k < 3; k++) starts[k] += starts[k - 1];
  const step = mixingStep(n);
  for (let k = 0, i = 0; k < n; k++, i = (i + step) % n) order[starts[layers[i]]++] = i;
  return {colours: tints, shapes: forms, order, marked};
}

/**
 * Return what the painters need of some points whose looks have changed, in the order of the points.
 *
 * @param {PointLooks} looks
 * @param {number[]} points
 * @returns {{colours: Uint8Array, shapes: Uint8Array}}
 */
export function composeSome({colours, shapes, marks, raised}, points) {
  const found = {colours: new Uint8Array(4 * points.length), shapes: new Uint8Array(points.length)};
  points.forEach((i, at) => {
    const isGrey = raised && !raised[i];
    found.colours.set(isGrey ? GREY : colours.subarray(4 * i, 4 * i + 4), 4 * at);
    found.shapes[at] = (shapes?.[i] ?? 0) | (isGrey ? 0 : (marks?.[i] ?? 0) << 2);
  });
  return found;
}

// Return a step by which one meets all of n, far apart one after the other: it has no divisor in common with n.
function mixingStep(n) {
  const divisor = (a, b) => b ? divisor(b, a % b) : a;
  let step = Math.max(1, Math.round(0.618 * n));
  while (divisor(step, n) > 1) step++;
  return step;
}

/**
 * @typedef {object} Painter
 * @property {string} kind
 * @property {(x: Float32Array, y: Float32Array) => void} setPlaces
 * @property {(looks: Looks) => void} setLooks
 * @property {(points: number[], looks: {colours: Uint8Array, shapes: Uint8Array}) => void} changeLooks
 *   From now on these points look so, and marked ones are above all others.
 * @property {(view: View, most: number) => void} paint
 *   Paint the uppermost points alone where there are more than the most.
 * @property {(view: View, points: number[]) => void} paintSome
 *   Paint these points onto the picture that is there.
 */

/**
 * Return a painter for a canvas that has no context yet.
 *
 * @param {HTMLCanvasElement} canvas
 * @param {Float32Array} x
 * @param {Float32Array} y
 * @param {boolean} plain - Whether to do without WebGL.
 * @returns {Painter}
 */
export function createPainter(canvas, x, y, plain) {
  // Without a graphics card the plain canvas is quicker for crowds.
  const settings = {antialias: false, preserveDrawingBuffer: true,
    failIfMajorPerformanceCaveat: x.length > MOST_PATHS};
  const gl = plain ? null : canvas.getContext('webgl2', settings);
  return gl ? createGlPainter(gl, x, y) : createPlainPainter(canvas.getContext('2d'), x, y);
}

const VERTEX = `#version 300 es
in vec2 place; in vec4 colour; in uint shape;
uniform vec2 middle, scale; uniform float size, markedSize;
out vec4 tint; flat out uint form, mark; flat out float width;
void main() {
  form = shape & 3u; mark = shape >> 2u; tint = colour;
  width = mark > 0u ? markedSize : size;
  gl_Position = vec4((place - middle) * scale, 0.0, 1.0);
  gl_PointSize = width;
}`;
// Each shape is where a distance from the middle of the point is below one.
const FRAGMENT = `#version 300 es
precision mediump float;
in vec4 tint; flat in uint form, mark; flat in float width;
uniform vec3 ink; uniform float strength; out vec4 painted;
void main() {
  vec2 p = gl_PointCoord * 2.0 - 1.0, q = abs(p);
  float away = form == 0u ? length(p) : form == 1u ? max(q.x, q.y) * 1.12
    : form == 2u ? q.x + q.y : max(q.x * 1.8 - p.y, p.y * 1.25);
  float soft = 2.0 / width, inside = 1.0 - smoothstep(1.0 - soft, 1.0, away);
  vec4 shade = tint;
  if (mark == 1u && away > 0.66) shade = mix(tint, vec4(ink, 1.0), strength);
  if (mark == 2u && min(abs(p.x - p.y), abs(p.x + p.y)) < 0.34) shade = vec4(ink, 1.0);
  painted = vec4(shade.rgb, 1.0) * shade.a * inside;
}`;

function createGlPainter(gl, x, y) {
  const program = link(gl), n = x.length, uniforms = {};
  const [ofPlaces, ofColours, ofShapes, ofOrder, ofSome] = [0, 1, 2, 3, 4].map(() => gl.createBuffer());
  for (const name of ['middle', 'scale', 'size', 'markedSize', 'ink', 'strength'])
    uniforms[name] = gl.getUniformLocation(program, name);
  gl.useProgram(program);
  attach(gl, program, 'place', ofPlaces, place => gl.vertexAttribPointer(place, 2, gl.FLOAT, false, 0, 0));
  attach(gl, program, 'colour', ofColours,
    place => gl.vertexAttribPointer(place, 4, gl.UNSIGNED_BYTE, true, 0, 0));
  attach(gl, program, 'shape', ofShapes, place => gl.vertexAttribIPointer(place, 1, gl.UNSIGNED_BYTE, 0, 0));
  gl.enable(gl.BLEND);
  gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  const uppermost = new Set();
  const fill = (target, buffer, values) => {
    gl.bindBuffer(target, buffer);
    gl.bufferData(target, values, gl.DYNAMIC_DRAW);
  };
  const change = (buffer, at, values) => {
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.bufferSubData(gl.ARRAY_BUFFER, at, values);
  };
  const drawSome = points => {
    fill(gl.ELEMENT_ARRAY_BUFFER, ofSome, Uint32Array.from(points));
    gl.drawElements(gl.POINTS, points.length, gl.UNSIGNED_INT, 0);
  };
  const painter = {
    kind: 'webgl2',
    setPlaces(across, up) {
      const places = new Float32Array(2 * n);
      for (let i = 0; i < n; i++) {
        places[2 * i] = across[i];
        places[2 * i + 1] = up[i];
      }
      fill(gl.ARRAY_BUFFER, ofPlaces, places);
    },
    setLooks({colours, shapes, order}) {
      fill(gl.ARRAY_BUFFER, ofColours, colours);
      fill(gl.ARRAY_BUFFER, ofShapes, shapes);
      fill(gl.ELEMENT_ARRAY_BUFFER, ofOrder, order);
      uppermost.clear();
    },
    changeLooks(points, {colours, shapes}) {
      points.forEach((point, at) => {
        change(ofColours, 4 * point, colours.subarray(4 * at, 4 * at + 4));
        change(ofShapes, point, shapes.subarray(at, at + 1));
        raise(uppermost, point, shapes[at]);
      });
    },
    paint(view, most) {
      const kept = Math.min(n, most);
      gl.viewport(0, 0, gl.canvas.width, gl.canvas.height);
      gl.clearColor(0, 0, 0, 0);
      gl.clear(gl.COLOR_BUFFER_BIT);
      setUniforms(gl, uniforms, view);
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, ofOrder);
      gl.drawElements(gl.POINTS, kept, gl.UNSIGNED_INT, 4 * (n - kept));
      if (uppermost.size) drawSome([...uppermost]);
    },
    paintSome(view, points) {
      setUniforms(gl, uniforms, view);
      drawSome(points);
    },
  };
  painter.setPlaces(x, y);
  return painter;
}
// A mark covers what is below it. Without one, a point is where it was among the others.
function raise(uppermost, point, form) {
  if (form >> 2) uppermost.add(point);
  else uppermost.delete(point);
}
function setUniforms(gl, uniforms, view) {
  const {width, height, ratio} = view;
  gl.uniform2f(uniforms.middle, view.x, view.y);
  gl.uniform2f(uniforms.scale, 2 * view.scale / width, 2 * view.scale / height);
  gl.uniform1f(uniforms.size, view.size * ratio);
  gl.uniform1f(uniforms.markedSize, view.markedSize * ratio);
  gl.uniform3f(uniforms.ink, ...view.ink.map(part => part / 255));
  gl.uniform1f(uniforms.strength, view.strength);
}
function attach(gl, program, name, buffer, describe) {
  const place = gl.getAttribLocation(program, name);
  gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
  gl.enableVertexAttribArray(place);
  describe(place);
}
function link(gl) {
  const program = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
  return program;
}

// Above so many points a path each takes too long; squares in a buffer of pixels do not.
const MOST_PATHS = 20000;

function createPlainPainter(pen, x, y) {
  let looks = null, places = [x, y];
  const uppermost = new Set();
  function putAll(points, view, put) {
    const {width, height, scale, ratio} = view, reach = Math.max(view.size, view.markedSize), [xs, ys] = places;
    for (const i of points) {
      const px = width / 2 + (xs[i] - view.x) * scale, py = height / 2 - (ys[i] - view.y) * scale;
      if (px > -reach && py > -reach && px < width + reach && py < height + reach)
        put(i, px * ratio, py * ratio);
    }
    put.finish?.();
  }
  return {
    kind: '2d',
    setPlaces(...wanted) { places = wanted; },
    setLooks(wanted) {
      looks = {...wanted, colours: wanted.colours.slice()};
      uppermost.clear();
    },
    changeLooks(points, {colours, shapes}) {
      points.forEach((point, at) => {
        looks.colours.set(colours.subarray(4 * at, 4 * at + 4), 4 * point);
        looks.shapes[point] = shapes[at];
        raise(uppermost, point, shapes[at]);
      });
    },
    paint(view, most) {
      const order = looks.order.subarray(Math.max(0, looks.order.length - most));
      pen.setTransform(1, 0, 0, 1, 0, 0);
      pen.clearRect(0, 0, pen.canvas.width, pen.canvas.height);
      // In a crowd, marked points are still drawn well, if they are few.
      const paths = order.length > MOST_PATHS ? Math.min(looks.marked, MOST_PATHS / 10) : order.length;
      const first = order.length - paths;
      if (first) putAll(order.subarray(0, first), view, intoBuffer(pen, view, looks));
      putAll(order.subarray(first), view, asPath(pen, view, looks));
      putAll(uppermost, view, asPath(pen, view, looks));
    },
    paintSome(view, points) { putAll(points, view, asPath(pen, view, looks)); },
  };
}

// Return a function that draws a point as a path.
function asPath(pen, {size, markedSize, ratio, ink, strength}, {colours, shapes}) {
  return (i, px, py) => {
    const mark = shapes[i] >> 2;
    pen.fillStyle = `rgba(${colours.subarray(4 * i, 4 * i + 3).join()},${colours[4 * i + 3] / 255})`;
    drawPoint(pen, px, py, (mark ? markedSize : size) * ratio, SHAPES[shapes[i] & 3], MARKS[mark],
      `rgba(${ink.join()},${mark === 1 ? strength : 1})`);
  };
}

// Return a function that writes a point as a square of pixels, inside a frame if it is marked.
function intoBuffer(pen, {size, markedSize, ratio, ink, strength}, {colours, shapes}) {
  const {width, height} = pen.canvas, picture = pen.createImageData(width, height);
  const pixels = new Uint32Array(picture.data.buffer);
  const [side, wide] = [size, markedSize].map(length => Math.max(1, Math.round(length * ratio * 0.9)));
  // A pixel is its four bytes as one number, in the order of the machine.
  const shades = new Uint32Array(colours.buffer, colours.byteOffset, colours.length / 4);
  const [frame] = new Uint32Array(Uint8Array.of(...ink, 255).buffer);
  function square(px, py, wanted, shade) {
    const left = Math.max(0, Math.round(px - wanted / 2)), right = Math.min(width, left + wanted);
    const top = Math.max(0, Math.round(py - wanted / 2)), bottom = Math.min(height, top + wanted);
    for (let row = top; row < bottom; row++) pixels.fill(shade, row * width + left, row * width + right);
  }
  const put = (i, px, py) => {
    const mark = shapes[i] >> 2;
    const framed = mark > 1 || mark && strength > 0.5;
    if (framed) square(px, py, wide, frame);
    square(px, py, mark ? Math.max(side, wide - 2 * framed) : side, shades[i]);
  };
  put.finish = () => pen.putImageData(picture, 0, 0);
  return put;
}

function drawPoint(pen, px, py, size, shape, mark, ink) {
  const half = size / 2;
  pen.beginPath();
  outlines[shape](pen, px, py, mark === 'ring' ? half * 0.8 : half);
  pen.fill();
  if (mark === 'none') return;
  if (mark === 'cross') {
    pen.beginPath();
    for (const turn of [-1, 1]) {
      pen.moveTo(px - half * 0.7, py - turn * half * 0.7);
      pen.lineTo(px + half * 0.7, py + turn * half * 0.7);
    }
  }
  pen.lineWidth = half * 0.36;
  pen.strokeStyle = ink;
  pen.stroke();
}
const corners = (pen, px, py, half, places) => {
  places.forEach(([across, down], i) =>
    pen[i ? 'lineTo' : 'moveTo'](px + across * half, py + down * half));
  pen.closePath();
};
const outlines = {
  disc: (pen, px, py, half) => pen.arc(px, py, half, 0, 2 * Math.PI),
  square: (pen, px, py, half) => pen.rect(px - half * 0.9, py - half * 0.9, half * 1.8, half * 1.8),
  diamond: (pen, px, py, half) => corners(pen, px, py, half, [[0, -1], [1, 0], [0, 1], [-1, 0]]),
  triangle: (pen, px, py, half) => corners(pen, px, py, half, [[0, -0.9], [1, 0.8], [-1, 0.8]]),
};
