// The page of a fit: its map, its legend, and the panel of the chosen row.
// Text of the data only ever becomes text, never markup.
import {data, find} from './page.js';
import {createMap} from './map.js';
import {MARKS} from './map_painters.js';
import {RAMPS, classKey, classLooks, rampKey, rampLooks} from './map_colours.js';
import {brief, button, count, cut, isolated, make, percent, placeBeside} from './elements.js';

const kinds = {f4: Float32Array, i4: Int32Array, i2: Int16Array, u2: Uint16Array};
function unpacked([kind, text]) {
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new kinds[kind](bytes.buffer);
}
const {x, y, first, second, top: best, next, density, given, members, weights} =
  Object.fromEntries(Object.entries(data.arrays).map(([name, packed]) => [name, unpacked(packed)]));
const {ids, classes, details, images} = data;
const n = ids.length, size = members.length / n;

// --- Colours ---

const modes = {predicted: first, given, confidence: best, density}, MOST_KEYS = 24;
let mode = 'predicted', only = null, looped = null;
const marks = new Uint8Array(n);
for (let i = 0; i < n; i++) if (given[i] >= 0) marks[i] = MARKS.indexOf('ring');
for (const i of data.doubtful) marks[i] = MARKS.indexOf('cross');

function looks() {
  const values = modes[mode];
  const found = {...mode in RAMPS ? rampLooks(mode, values, data.ranges[mode]) :
    classLooks(values, classes.length), marks};
  if (looped || only !== null) found.raised = Uint8Array.from(values, place => place === only ? 1 : 0);
  if (looped) found.raised.fill(0);
  for (const i of looped ?? []) found.raised[i] = 1;
  return found;
}
const map = x ? createMap(find('points'), {x, y, name: `Map of ${count(n)} rows`,
  describe: i => `${ids[i]}: ${classes[first[i]]}, ${percent(best[i])}`,
  onPoint: i => i < 0 ? leave() : showTip(i),
  onChoose: (i, touch) => {
    open(i, false);
    // Beside the map the panel says it all, and the box would hide the lines. Fingers do not point.
    if (touch) showTip(i);
    else leave();
  },
  onLoop: showLoop,
  onLoopMode: on => find('loop').setAttribute('aria-pressed', on)}) : null;
const drawMap = () => map?.setLooks(looks());

// --- The legend ---

function key(place, rows) {
  const element = button('', 'key', () => {
    only = only === place ? null : place;
    looped = null;
    pressKeys();
    drawMap();
  });
  element.append(...classKey(place, classes[place], rows));
  element.dataset.place = place;
  return element;
}
function pressKeys() {
  for (const element of find('legend').querySelectorAll('.key'))
    element.setAttribute('aria-pressed', only === Number(element.dataset.place));
}
function drawKeys() {
  const counts = new Int32Array(classes.length + 1);
  for (const place of modes[mode]) counts[place + 1]++;
  const keys = [-1, ...classes.keys()].filter(place => counts[place + 1]).map(place =>
    key(place, counts[place + 1]));
  const rest = keys.splice(MOST_KEYS + 1);
  const more = button(`… and ${count(rest.length)} more`, 'key', () => more.replaceWith(...rest));
  find('legend').replaceChildren(...keys, ...rest.length ? [more] : []);
  pressKeys();
}
function setMode(wanted) {
  mode = wanted;
  only = null;
  for (const element of document.querySelectorAll('[data-mode]'))
    element.setAttribute('aria-pressed', element.dataset.mode === mode);
  if (mode in RAMPS) find('legend').replaceChildren(...rampKey(mode, data.ranges[mode]));
  else drawKeys();
  drawMap();
}

// --- What is known of a row, as pairs of a name and nodes ---

const called = (place, share) => [isolated(brief(classes[place])), ', ' + percent(share)];
function facts(i, mostColumns = Infinity) {
  const found = [
    ['predicted', called(first[i], best[i])],
    ['second', second[i] < 0 ? ['none'] : called(second[i], next[i])],
    ['margin', [percent(best[i] - next[i])]],
    ['density', [String(Number(density[i].toPrecision(4)))]],
    ['given', given[i] < 0 ? ['none'] : [isolated(brief(classes[given[i]]))]]];
  const shown = details.columns.slice(0, mostColumns);
  shown.forEach((name, place) => found.push([brief(name, 40), [isolated(brief(details.rows[i][place], 160))]]));
  if (shown.length < details.of && shown.length)
    found.push(['', [make('small', '', `${count(shown.length)} of ${count(details.of)} columns`)]]);
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

// --- The box at the row under the pointer ---

const tip = find('tip');
function leave() { tip.style.display = 'none'; }
function showTip(i) {
  const [canvas, words] = tip.children;
  canvas.style.display = images ? '' : 'none';
  if (images) paint(canvas, i);
  words.replaceChildren(make('b', '', isolated(brief(ids[i]))),
    ...facts(i, 6).map(([name, nodes]) => make('p', '', ...name ? [isolated(name), ': '] : [], ...nodes)));
  tip.style.display = 'flex';
  placeBeside(tip, map.placeInWindow(i));
}

// --- The panel of the chosen row, or of the rows inside a loop ---

const panel = find('panel'), empty = [...panel.children];
let chosen = null, before = null;
function hyperedge(i) {
  const found = [];
  for (let at = i * size; at < (i + 1) * size; at++)
    if (members[at] >= 0) found.push([members[at], weights[at] / 65535]);
  return found.sort((a, b) => b[1] - a[1]);
}
function head(...names) {
  const row = make('tr', '', ...names.map(name => Object.assign(make('th', '', name), {scope: 'col'})));
  return make('thead', '', row);
}
function opener(i) {
  const cell = make('th', '', button(cut(ids[i]), 'link', () => open(i, true)));
  cell.scope = 'row';
  return cell;
}
function memberTable(i) {
  const edge = hyperedge(i), most = edge[0][1] || 1;
  const rows = edge.map(([member, weight]) => {
    const bar = make('i');
    bar.style.width = 100 * weight / most + '%';
    const label = given[member] < 0 ? first[member] : given[member];
    return make('tr', member === i ? 'own' : '', opener(member),
      make('td', '', cut(classes[label]), ' ', make('small', '', given[member] < 0 ? 'predicted' : 'given')),
      make('td', 'weight', percent(weight), bar));
  });
  return make('table', '', head('Row', 'Class', 'Attention'), make('tbody', '', ...rows));
}
// The address keeps the chosen row, where a page may change it.
function keep(hash) {
  try { history.replaceState(null, '', hash); } catch { /* a page in a frame may not */ }
}
function open(i, focus) {
  if (chosen === null) before = document.activeElement;
  chosen = i;
  const nodes = [make('h3', '', isolated(ids[i]), button('close', 'mode', close))];
  if (images) {
    const canvas = make('canvas');
    paint(canvas, i);
    nodes.push(canvas);
  }
  const list = make('dl', '', ...facts(i).flatMap(([name, values]) =>
    [make('dt', '', isolated(name)), make('dd', '', ...values)]));
  const title = make('h3', '', 'Its hyperedge, by attention');
  const edge = hyperedge(i), strongest = edge[0]?.[1] || 1;
  if (map) title.append(button('zoom', 'mode', () => map.showPoints(edge.map(([member]) => member))));
  panel.replaceChildren(...nodes, list, title, memberTable(i));
  panel.dataset.chosen = i;
  panel.scrollTop = 0;
  if (focus) panel.focus({preventScroll: true});
  map?.reach(i);
  map?.setChosen(i, edge.filter(([member]) => member !== i)
    .map(([member, weight]) => [member, weight / strongest]));
  keep('#row=' + encodeURIComponent(ids[i]));
}
function close() {
  if (chosen === null && looped === null) return;
  if (looped) {
    looped = null;
    drawMap();
  }
  chosen = null;
  delete panel.dataset.chosen;
  panel.replaceChildren(...empty);
  map?.setChosen(-1);
  keep(' ');
  leave();
  if (before?.isConnected) before.focus({preventScroll: true});
}

const MOST_LISTED = 200;
function showLoop(rows) {
  close();
  if (!rows.length) return;
  only = null;
  looped = rows;
  pressKeys();
  drawMap();
  const counts = new Map();
  for (const i of rows) counts.set(first[i], (counts.get(first[i]) ?? 0) + 1);
  const classRows = [...counts].sort((a, b) => b[1] - a[1]).map(([place, number]) =>
    make('tr', '', Object.assign(make('th', '', cut(classes[place])), {scope: 'row'}),
      make('td', '', count(number)), make('td', '', percent(number / rows.length))));
  const listed = [...rows.slice(0, MOST_LISTED)].map(i =>
    make('li', '', button(cut(ids[i]), 'link', () => open(i, true))));
  const rest = rows.length - MOST_LISTED;
  if (rest > 0) listed.push(make('li', '', `… and ${count(rest)} more`));
  panel.replaceChildren(
    make('h3', '', rows.length === 1 ? '1 row' : `${count(rows.length)} rows`, button('close', 'mode', close)),
    make('table', '', head('Predicted', 'Rows', 'Share'), make('tbody', '', ...classRows)),
    make('ul', 'ids', ...listed));
  panel.dataset.loop = rows.length;
  panel.scrollTop = 0;
}

// --- What a user does outside the map ---

function seek(id) {
  const wanted = id.trim();
  const exact = ids.indexOf(id) >= 0 ? ids.indexOf(id) : ids.indexOf(wanted);
  return exact >= 0 || !wanted ? exact : ids.findIndex(name => name.startsWith(wanted));
}
// On a phone the panel is below the map.
const toMap = () => find('map').scrollIntoView({block: 'start'});
function openHash() {
  const id = new URLSearchParams(location.hash.slice(1)).get('row');
  if (id === null || !ids.includes(id)) return;
  open(ids.indexOf(id), false);
  toMap();
}
const onClick = (selector, act) => document.querySelectorAll(selector).forEach(element =>
  element.addEventListener('click', () => act(element)));

find('search').addEventListener('submit', event => {
  event.preventDefault();
  const i = seek(find('wanted').value);
  find('missing').textContent = i < 0 ? 'No row has this id.' : '';
  if (i >= 0) open(i, true);
});
onClick('[data-mode]', element => setMode(element.dataset.mode));
onClick('[data-open]', element => {
  open(Number(element.dataset.open), true);
  toMap();
});
onClick('[data-zoom]', element => Number(element.dataset.zoom) ? map.zoom(Number(element.dataset.zoom),
  chosen === null ? undefined : map.placeOf(chosen)) : map.showAll());
onClick('#loop', () => map.setLoopMode(!map.loopMode));
onClick('[data-more]', element => {
  find(element.dataset.more).hidden = false;
  element.remove();
});
addEventListener('keydown', event => { if (event.key === 'Escape') close(); });
addEventListener('hashchange', openHash);
addEventListener('scroll', leave, {passive: true});
addEventListener('resize', leave);

if (map) setMode('predicted');
openHash();
