// Embeddings side by side: a node under the pointer is ringed in every panel, and shown with its picture.
import {data, find} from './page.js';
import {createMap} from './map.js';
import {MARKS} from './map_painters.js';

const tip = find('tip'), canvas = tip.querySelector('canvas'), words = tip.querySelector('span');
const pen = canvas.getContext('2d'), sheet = new Image(), [width, height] = data.size;
canvas.width = width; canvas.height = height;
sheet.src = data.sprite;
const named = label => data.names[label] ?? label;
const shades = Object.fromEntries(Object.entries(data.colours).map(([label, hex]) =>
  [label, [...[1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16)), 225]]));

function show(node, panel) {
  const [left, top] = maps[panel].placeInWindow(node);
  pen.clearRect(0, 0, width, height);
  pen.drawImage(sheet, node % data.columns * width, Math.floor(node / data.columns) * height, width, height,
    0, 0, width, height);
  words.textContent = 'node ' + node + '\ntrue: ' + named(data.labels[node]) +
    '\npredicted: ' + named(data.panels[panel].predictions[node]);
  tip.style.display = 'flex';
  const box = tip.getBoundingClientRect(), gap = 16;
  const fit = (at, size, room) => Math.max(4, at + gap + size > room ? at - gap - size : at + gap);
  tip.style.left = fit(left, box.width, innerWidth) + 'px';
  tip.style.top = fit(top, box.height, innerHeight) + 'px';
}
function leave() {
  tip.style.display = 'none';
  for (const map of maps) map.setPointed(-1);
}
function meet(node, panel) {
  for (const map of maps) map.setPointed(node);
  if (node < 0) leave();
  else show(node, panel);
}
const wrong = data.panels.map(panel => new Set(panel.wrong));
const maps = data.panels.map((panel, place) => createMap(find('panel-' + place), {
  x: Float32Array.from(panel.x), y: Float32Array.from(panel.y), name: panel.title,
  describe: node => `node ${node}, true: ${named(data.labels[node])}, ` +
    `predicted: ${named(panel.predictions[node])}`,
  onPoint: node => meet(node, place),
  // A tap is a click; not every touch screen sends the movement before it.
  onChoose: node => meet(node, place)}));

const chips = [...document.querySelectorAll('.chip')];
function drawPanels() {
  const off = new Set(chips.filter(chip => chip.getAttribute('aria-pressed') === 'false')
    .map(chip => chip.dataset.group));
  const colours = Uint8Array.from(data.labels.flatMap(label => shades[label]));
  maps.forEach((map, place) => {
    const isWrong = node => wrong[place].has(node);
    const marks = Uint8Array.from(data.labels, (_, node) => isWrong(node) ? MARKS.indexOf('ring') : 0);
    const raised = Uint8Array.from(data.labels, (label, node) =>
      off.has('class-' + label) || off.has(isWrong(node) ? 'wrong' : 'right') ? 0 : 1);
    map.setLooks({colours, marks, ...off.size && {raised}});
  });
}
for (const chip of chips) chip.addEventListener('click', () => {
  chip.setAttribute('aria-pressed', chip.getAttribute('aria-pressed') !== 'true');
  drawPanels();
});
drawPanels();
addEventListener('scroll', leave, {passive: true});
addEventListener('resize', leave);
