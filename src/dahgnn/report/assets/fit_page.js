// Runs after page.js. Text of the data only ever becomes text, never markup.
const kinds = {f4: Float32Array, i4: Int32Array, i2: Int16Array, u2: Uint16Array, u1: Uint8Array};
function unpacked([kind, text]) {
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new kinds[kind](bytes.buffer);
}
const {x, y, first, second, top: best, next, density, given, members, weights} =
  Object.fromEntries(Object.entries(data.arrays).map(([name, packed]) => [name, unpacked(packed)]));
const {ids, classes, details, images, colours} = data;
const n = ids.length, size = members.length / n, grey = 'rgba(128,134,145,0.3)';

const percent = share => (100 * share).toFixed(1) + '\u00a0%';
function brief(text, most = 80) {
  const letters = [...text];
  return letters.length > most ? letters.slice(0, most - 1).join('') + '…' : text;
}
function make(name, kind, ...children) {
  const element = document.createElement(name);
  if (kind) element.className = kind;
  element.append(...children);
  return element;
}
// An element of its own keeps marks of direction in text of the data from turning what follows.
const isolated = text => make('bdi', '', text);
function cut(text) {
  const element = make('bdi', 'cut', brief(text));
  element.title = brief(text, 300);
  return element;
}

// The map: one trace, the labelled rows last, above the crowd.
const order = new Int32Array(n);
{
  let at = 0;
  for (const labelled of [false, true])
    for (let i = 0; i < n; i++) if (given[i] >= 0 === labelled) order[at++] = i;
}
const ordered = (values, Kind = Float32Array) => Kind.from(order, i => values[i]);
const steps = [grey, ...colours].flatMap((colour, i, all) =>
  [[i / all.length, colour], [(i + 1) / all.length, colour]]);
const ramps = {confidence: ['#d64545', '#c39a1f', '#2f7ed8'], density: ['#17a2b8', '#8a63d2', '#e0457b']};
const modes = {predicted: first, given, confidence: best, density};
const trace = {type: 'scattergl', mode: 'markers', x: ordered(x), y: ordered(y), hoverinfo: 'none'};
const hidden = {visible: false, zeroline: false};
const layout = {showlegend: false, hovermode: 'closest', dragmode: 'pan', uirevision: 'map',
  margin: {l: 6, r: 6, t: 6, b: 6}, xaxis: hidden, yaxis: {...hidden, scaleanchor: 'x'}};
const small = innerWidth < 520 ? 0.7 : 1;
const dot = (n < 3000 ? 8 : n < 15000 ? 6 : n < 40000 ? 4.5 : 3.5) * small;
let mode = 'predicted', only = null;

function marker() {
  const look = {size: dot, opacity: 0.85};
  if (mode in ramps) {
    const [low, high] = data.ranges[mode], room = high > low ? 0 : 0.5;
    return {...look, color: ordered(modes[mode]), cmin: low - room, cmax: high + room,
      colorscale: ramps[mode].map((colour, i) => [i / 2, colour])};
  }
  const shade = k => k < 0 || only !== null && k !== only ? -1 : k % colours.length;
  return {...look, color: Float32Array.from(order, i => shade(modes[mode][i])),
    cmin: -1.5, cmax: colours.length - 0.5, colorscale: steps};
}
const drawMap = () => draw('points', [{...trace, marker: marker()}], layout);

function key(place, count) {
  const mark = make('i'), name = place < 0 ? make('span', '', 'no label') : cut(classes[place]);
  mark.style.setProperty('--c', place < 0 ? grey : colours[place % colours.length]);
  const button = make('button', 'key', mark, name, make('small', '', count.toLocaleString('en')));
  button.type = 'button';
  button.disabled = place < 0;
  button.setAttribute('aria-pressed', only === null || only === place);
  button.addEventListener('click', () => {
    only = only === place ? null : place;
    for (const [i, other] of [...find('legend').children].entries())
      other.setAttribute('aria-pressed', only === null || i === [...shown].indexOf(only));
    drawMap();
  });
  return button;
}
let shown = [];
function drawLegend() {
  if (mode in ramps) {
    const [low, high] = data.ranges[mode], ramp = make('div', 'ramp');
    const text = mode === 'confidence' ? percent : value => Number(value.toPrecision(3)).toString();
    ramp.style.background = 'linear-gradient(to right,' + ramps[mode] + ')';
    const ends = mode === 'density' && high > low ? ['≤ ', '≥ '] : ['', ''];
    find('legend').replaceChildren(make('span', '', ends[0] + text(low)), ramp,
      make('span', '', ends[1] + text(high)));
    return;
  }
  const counts = new Int32Array(classes.length + 1);
  for (const k of modes[mode]) counts[k + 1]++;
  shown = [...classes.keys(), -1].filter(place => counts[place + 1]);
  find('legend').replaceChildren(...shown.map(place => key(place, counts[place + 1])));
}
function setMode(wanted) {
  mode = wanted;
  only = null;
  for (const button of document.querySelectorAll('[data-mode]'))
    button.setAttribute('aria-pressed', button.dataset.mode === mode);
  drawLegend();
  return drawMap();
}

// What is known of a row, as pairs of a name and nodes.
function facts(i) {
  const label = given[i] < 0 ? ['none'] : [isolated(brief(classes[given[i]]))];
  const found = [
    ['predicted', [isolated(brief(classes[first[i]])), ', ' + percent(best[i])]],
    ['second', second[i] < 0 ? ['none'] : [isolated(brief(classes[second[i]])), ', ' + percent(next[i])]],
    ['margin', [percent(best[i] - next[i])]],
    ['density', [String(Number(density[i].toPrecision(4)))]],
    ['given', label]];
  details.columns.forEach((name, place) =>
    found.push([brief(name, 40), [isolated(brief(details.rows[i][place], 160))]]));
  return found;
}

// Sheets are decoded when a row of theirs is shown; a few stay at hand.
const sheets = new Map();
function sheetOf(number) {
  const image = sheets.get(number) ?? new Image();
  if (!image.src) image.src = images.sheets[number];
  sheets.delete(number);
  sheets.set(number, image);
  if (sheets.size > 8) sheets.delete(sheets.keys().next().value);
  return image;
}
function paint(canvas, i) {
  const [width, height] = images.size, {columns} = images, each = columns * columns, place = i % each;
  const image = sheetOf(Math.floor(i / each));
  Object.assign(canvas, {width, height});
  canvas.dataset.image = i;
  image.decode().then(() => {
    if (canvas.dataset.image !== String(i)) return;
    canvas.getContext('2d').drawImage(image, place % columns * width, Math.floor(place / columns) * height,
      width, height, 0, 0, width, height);
  });
}

// Over the map: a ring at the row under the pointer, lines from the chosen row to its members.
const chart = find('points'), tip = find('tip'), ring = find('ring');
let pointed = null, chosen = null;
function place(i) {
  const {xaxis, yaxis} = chart._fullLayout;
  return [xaxis._offset + xaxis.l2p(x[i]), yaxis._offset + yaxis.l2p(y[i])];
}
function shape(name, values) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(values)) element.setAttribute(key, value);
  return element;
}
function hyperedge(i) {
  const found = [];
  for (let at = i * size; at < (i + 1) * size; at++)
    if (members[at] >= 0) found.push([members[at], weights[at] / 65535]);
  return found.sort((a, b) => b[1] - a[1]);
}
function drawOver() {
  ring.style.display = pointed === null ? 'none' : 'block';
  if (!chart._fullLayout) return;
  if (pointed !== null) [ring.style.left, ring.style.top] = place(pointed).map(at => at + 'px');
  const shapes = [];
  if (chosen !== null) {
    const [x1, y1] = place(chosen), edge = hyperedge(chosen);
    for (const [i, weight] of edge) {
      const [x2, y2] = place(i), share = weight / (edge[0][1] || 1);
      if (i !== chosen) shapes.push(shape('line', {x1, y1, x2, y2, 'stroke-width': 0.8 + 3.2 * share,
        'stroke-opacity': 0.35 + 0.5 * share}));
      shapes.push(shape('circle', {cx: x2, cy: y2, r: (i === chosen ? 9 : 5) * small}));
    }
  }
  find('lines').replaceChildren(...shapes);
}

function leave() {
  tip.style.display = 'none';
  pointed = null;
  drawOver();
}
function showTip(i, event) {
  const [canvas, words] = tip.children;
  canvas.style.display = images ? '' : 'none';
  if (images) paint(canvas, i);
  words.replaceChildren(make('b', '', isolated(brief(ids[i]))),
    ...facts(i).map(([name, nodes]) => make('p', '', isolated(name), ': ', ...nodes)));
  tip.style.display = 'flex';
  const box = tip.getBoundingClientRect(), gap = 16;
  const fit = (at, length, room) =>
    Math.max(4, Math.min(at + gap + length > room ? at - gap - length : at + gap, room - length - 4));
  tip.style.left = fit(event.clientX, box.width, innerWidth) + 'px';
  tip.style.top = fit(event.clientY, box.height, innerHeight) + 'px';
}

// The panel of the chosen row.
const empty = [...find('panel').children];
let before = null;
function button(text, kind, act) {
  const element = make('button', kind, text);
  element.type = 'button';
  element.addEventListener('click', act);
  return element;
}
function memberRow([i, weight], centre, most) {
  const bar = make('i'), head = make('th', '', button(cut(ids[i]), 'link', () => open(i, true)));
  head.scope = 'row';
  if (i === centre) head.append(' (centre)');
  bar.style.width = 100 * weight / (most || 1) + '%';
  return make('tr', '', head, make('td', 'weight', percent(weight), bar),
    make('td', '', cut(classes[first[i]])), make('td', '', given[i] < 0 ? '' : cut(classes[given[i]])));
}
function table(i) {
  const edge = hyperedge(i), names = ['member', 'attention', 'predicted', 'given'];
  const head = make('tr', '', ...names.map(name => make('th', '', name)));
  for (const cell of head.children) cell.scope = 'col';
  return make('div', 'box', make('table', '', make('thead', '', head),
    make('tbody', '', ...edge.map(entry => memberRow(entry, i, edge[0][1])))));
}
function keep(hash) {
  // Within a notebook's frame the address is not the page's own to change.
  try { history.replaceState(null, '', hash); } catch { /* The link is all that is lost. */ }
}
// Brings a row into view that is zoomed out of it.
function reach(i) {
  const {xaxis, yaxis} = chart._fullLayout, change = {};
  for (const [name, axis, at] of [['xaxis', xaxis, x[i]], ['yaxis', yaxis, y[i]]]) {
    const [low, high] = axis.range;
    if (at < low || at > high)
      change[name + '.range'] = [at - (high - low) / 2, at + (high - low) / 2];
  }
  if (Object.keys(change).length) Plotly.relayout(chart, change);
}
function approach(i) {
  const edge = hyperedge(i).map(([member]) => member), change = {};
  const far = values => Math.max(...edge.map(member => Math.abs(values[member] - values[i])));
  const half = 1.3 * Math.max(far(x), far(y)) || 1;
  for (const [name, at] of [['xaxis', x[i]], ['yaxis', y[i]]])
    change[name + '.range'] = [at - half, at + half];
  Plotly.relayout(chart, change);
}
function open(i, focus) {
  if (chosen === null) before = document.activeElement;
  chosen = i;
  const parts = [make('h3', '', isolated(ids[i]), button('close', 'mode', close))];
  if (images) {
    const canvas = make('canvas');
    paint(canvas, i);
    parts.push(canvas);
  }
  const list = make('dl', '', ...facts(i).flatMap(([name, nodes]) =>
    [make('dt', '', isolated(name)), make('dd', '', ...nodes)]));
  const panel = find('panel');
  panel.replaceChildren(...parts, list,
    make('h3', '', 'Its hyperedge, by attention', button('zoom', 'mode', () => approach(i))), table(i));
  panel.dataset.chosen = i;
  panel.scrollTop = 0;
  if (focus) panel.focus({preventScroll: true});
  if (chart._fullLayout) reach(i);
  keep('#row=' + encodeURIComponent(ids[i]));
  drawOver();
}
function close() {
  if (chosen === null) return;
  chosen = null;
  delete find('panel').dataset.chosen;
  find('panel').replaceChildren(...empty);
  keep(' ');
  drawOver();
  leave();
  if (before?.isConnected) before.focus({preventScroll: true});
}
function seek(id) {
  const wanted = id.trim();
  const exact = ids.indexOf(id) >= 0 ? ids.indexOf(id) : ids.indexOf(wanted);
  return exact >= 0 || !wanted ? exact : ids.findIndex(name => name.startsWith(wanted));
}
// On a phone the panel is below the map.
const toMap = () => chart.parentElement.scrollIntoView({block: innerWidth > 900 ? 'center' : 'start'});
function openHash() {
  const id = new URLSearchParams(location.hash.slice(1)).get('row');
  if (id === null || !ids.includes(id)) return;
  open(ids.indexOf(id), false);
  toMap();
}

find('search').addEventListener('submit', event => {
  event.preventDefault();
  const i = seek(find('wanted').value);
  find('missing').textContent = i < 0 ? 'No row has this id.' : '';
  if (i >= 0) open(i, true);
});
for (const element of document.querySelectorAll('[data-mode]'))
  element.addEventListener('click', () => setMode(element.dataset.mode));
for (const row of document.querySelectorAll('tr[data-row]')) row.addEventListener('click', () => {
  open(Number(row.dataset.row), true);
  toMap();
});
for (const element of document.querySelectorAll('[data-zoom]')) element.addEventListener('click', () => {
  const factor = Number(element.dataset.zoom), change = {};
  for (const [name, values] of [['xaxis', x], ['yaxis', y]]) {
    const [low, high] = chart._fullLayout[name].range;
    const middle = chosen === null ? (low + high) / 2 : values[chosen], half = factor * (high - low) / 2;
    change[name + (factor ? '.range' : '.autorange')] = factor ? [middle - half, middle + half] : true;
  }
  Plotly.relayout(chart, change);
});
addEventListener('keydown', event => { if (event.key === 'Escape') close(); });
addEventListener('hashchange', openHash);
addEventListener('scroll', leave, {passive: true});
addEventListener('resize', leave);

setMode('predicted').then(() => {
  const meet = ({points, event}) => {
    pointed = order[points[0].pointNumber];
    drawOver();
    showTip(pointed, event.touches?.[0] ?? event);
  };
  // A tap is a click; not every touch screen sends the movement before it.
  chart.on('plotly_hover', meet);
  chart.on('plotly_click', found => {
    open(order[found.points[0].pointNumber], false);
    // Beside the map the panel says it all, and the box would hide the lines.
    if (innerWidth > 900) leave();
    else meet(found);
  });
  chart.on('plotly_unhover', leave);
  for (const kind of ['plotly_relayouting', 'plotly_relayout', 'plotly_afterplot']) chart.on(kind, drawOver);
  openHash();
});

// Calibration and training.
const dull = '#7a8794', bright = colours[0];
const plain = (xaxis, yaxis, shapes = []) => ({showlegend: false, hovermode: 'closest', shapes,
  margin: {l: 56, r: 14, t: 14, b: 46}, xaxis, yaxis});
const titled = (text, rest = {}) => ({title: {text}, ...rest});
function drawReliability(bins) {
  const column = make => bins.map(([sure, right, count, low, high]) => make(sure, right, count, low, high));
  draw('reliability', [
    {type: 'scatter', mode: 'lines', x: [0, 100], y: [0, 100], hoverinfo: 'skip',
      line: {color: dull, dash: 'dash', width: 1.4}},
    {type: 'scatter', mode: 'markers+lines', x: column(sure => 100 * sure),
      y: column((_, right) => 100 * right), customdata: column((_, right, count) => count),
      error_y: {type: 'data', symmetric: false, thickness: 1.4, width: 4,
        array: column((_, right, count, low, high) => 100 * (high - right)),
        arrayminus: column((_, right, count, low) => 100 * (right - low))},
      marker: {color: bright, size: 9}, line: {color: bright, width: 1.6},
      hovertemplate: 'confidence %{x:.1f} %: %{y:.1f} % right<br>%{customdata:,} rows<extra></extra>'},
  ], plain(titled('confidence in %', {range: [0, 102]}), titled('right in %', {range: [0, 102]})));
}
function drawCurves(kind, title) {
  const traces = [['train_', dull], ['validation_', bright]].filter(([name]) => data.curves[name + kind]);
  const hovertemplate = 'epoch %{x}: %{y:.4~g}<extra></extra>';
  draw('curve-' + kind, traces.flatMap(([name, color]) => data.curves[name + kind].flatMap(([x, y], i) => {
    const best = x.indexOf(data.best[i]);
    const dot = best < 0 ? [] : [{x: [x[best]], y: [y[best]], mode: 'markers', marker: {color, size: 9}}];
    return [{x, y, mode: x.length > 1 ? 'lines' : 'markers', marker: {color}, line: {color, width: 1.6}}, ...dot];
  })).map(trace => ({type: 'scatter', hovertemplate, ...trace})),
  plain(titled('epoch', {rangemode: 'tozero'}), titled(title)));
}
if (data.bins.length) drawReliability(data.bins);
for (const [kind, title] of [['loss', 'loss'], ['accuracy', 'accuracy in %']])
  if (find('curve-' + kind)) drawCurves(kind, title);
