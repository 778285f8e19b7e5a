const tip = find('tip'), canvas = tip.querySelector('canvas'), words = tip.querySelector('span');
const pen = canvas.getContext('2d'), sheet = new Image(), [width, height] = data.size;
canvas.width = width; canvas.height = height;
sheet.src = data.sprite;
const places = data.figures.map(figure => {
  const found = new Map();
  for (const trace of figure.data) if (trace.customdata)
    trace.customdata.forEach((node, i) => found.set(node, [trace.x[i], trace.y[i]]));
  return found;
});
const named = label => data.names[label] ?? label;
// A ring of the page's own: one of plotly's would redraw all points at each move of the pointer.
let pointed = null;
function point(node) {
  pointed = node;
  data.figures.forEach((_, panel) => {
    const ring = find('ring-' + panel), {xaxis, yaxis} = find('panel-' + panel)._fullLayout;
    ring.style.display = node === null ? 'none' : 'block';
    if (node === null) return;
    const [x, y] = places[panel].get(node);
    ring.style.left = xaxis._offset + xaxis.l2p(x) + 'px';
    ring.style.top = yaxis._offset + yaxis.l2p(y) + 'px';
  });
}
function show(node, panel, event) {
  pen.clearRect(0, 0, width, height);
  pen.drawImage(sheet, node % data.columns * width, Math.floor(node / data.columns) * height, width, height,
    0, 0, width, height);
  words.textContent = 'node ' + node + '\ntrue: ' + named(data.labels[node]) +
    '\npredicted: ' + named(data.predictions[panel][node]);
  tip.style.display = 'flex';
  const box = tip.getBoundingClientRect(), gap = 16;
  const fit = (at, size, room) => Math.max(4, at + gap + size > room ? at - gap - size : at + gap);
  tip.style.left = fit(event.clientX, box.width, innerWidth) + 'px';
  tip.style.top = fit(event.clientY, box.height, innerHeight) + 'px';
}
function leave() { tip.style.display = 'none'; point(null); }
function meet(panel, {points, event}) {
  const node = points[0].customdata;
  if (node === undefined) return;
  point(node);
  show(node, panel, event.touches?.[0] ?? event);
}
data.figures.forEach((figure, panel) => {
  const id = 'panel-' + panel;
  if (innerWidth < 520) for (const {marker} of figure.data) marker.size *= 0.6;
  draw(id, figure.data, figure.layout).then(() => {
    // A tap is a click; not every touch screen sends the movement before it.
    for (const kind of ['plotly_hover', 'plotly_click']) find(id).on(kind, found => meet(panel, found));
    find(id).on('plotly_unhover', leave);
    for (const kind of ['plotly_relayouting', 'plotly_relayout']) find(id).on(kind, () => point(pointed));
  });
});
addEventListener('scroll', leave, {passive: true});
addEventListener('resize', leave);
