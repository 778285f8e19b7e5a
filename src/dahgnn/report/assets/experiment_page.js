import {data, find} from './page.js';
import {draw} from './charts.js';

for (const [id, figure] of Object.entries(data.figures)) draw(id, figure.data, figure.layout);
const margin = {l: 52, r: 14, t: 14, b: 46};
const faded = hex => 'rgba(' + [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16)) + ',0.16)';
const kinds = ['dataset', 'method', 'labels'];
const chosen = (name, kind) => find(name + '-' + kind).value;
function band(curve, kind, name, colour, dash, factor) {
  const [low, middle, high] = curve[kind].map(row => row.map(y => y === null ? null : y * factor));
  const kept = curve.epoch.map((_, i) => i).filter(i => middle[i] !== null);
  const at = row => kept.map(i => row[i]), x = at(curve.epoch);
  return [
    {type: 'scatter', mode: 'lines', x: [...x, ...x.slice().reverse()],
      y: [...at(high), ...at(low).reverse()],
      fill: 'toself', fillcolor: faded(colour), line: {width: 0}, hoverinfo: 'skip', showlegend: false},
    {type: 'scatter', mode: 'lines', x, y: at(middle), name, line: {color: colour, dash, width: 2.2},
      hovertemplate: 'epoch %{x}: %{y:.4~g}'}];
}
const nothing = text => ({text, showarrow: false, xref: 'paper', yref: 'paper', x: 0.5, y: 0.5});
// Its words are set as text, so they need no escape.
function keys(entries) {
  find('curve-keys').replaceChildren(...entries.map(([text, colour, kind]) => {
    const key = document.createElement('b'), mark = document.createElement('i');
    mark.className = kind;
    mark.style.setProperty('--c', colour);
    key.append(mark, text);
    return key;
  }));
}
function drawCurves() {
  const [dataset, method, labels] = kinds.map(kind => chosen('curve', kind)), all = method === 'all';
  const loss = [], accuracy = [], entries = [], training = '#7a8794';
  for (const place of all ? data.methods.map((_, i) => i) : [Number(method)]) {
    const curve = data.curves[dataset + '/' + place + '/' + labels];
    if (!curve) continue;
    const {title, colour} = data.methods[place];
    if (!all && curve.train_loss) {
      loss.push(...band(curve, 'train_loss', 'training', training, 'dash', 1));
      entries.push(['training', training, 'dashed']);
    }
    entries.push([all ? data.titles[place] : 'validation', colour, 'solid']);
    if (curve.validation_loss) loss.push(...band(curve, 'validation_loss', title, colour, 'solid', 1));
    if (curve.validation_accuracy)
      accuracy.push(...band(curve, 'validation_accuracy', title, colour, 'solid', 100));
  }
  keys(entries);
  const layout = title => ({margin, showlegend: false, hovermode: 'closest',
    xaxis: {title: {text: 'epoch'}, rangemode: 'tozero'}, yaxis: {title: {text: title}},
    annotations: entries.length ? [] : [nothing('no learning curve here')]});
  draw('curve-loss', loss, layout(all ? 'validation loss' : 'loss'));
  draw('curve-accuracy', accuracy, layout('validation accuracy in %'));
}
const category = {type: 'category', showgrid: false, automargin: true, fixedrange: true};
function drawConfusion() {
  const place = kinds.map(kind => chosen('confusion', kind)), dataset = place[0];
  const counts = data.confusions[place.join('/')] || [];
  const names = counts.map((_, i) => data.classes[dataset][i] ?? String(i));
  const sum = row => row.reduce((a, b) => a + b, 0) || 1;
  const shares = counts.map(row => row.map(n => 100 * n / sum(row)));
  const short = p => p === 0 ? '' : p.toFixed(p < 9.95 ? 1 : 0);
  const trace = {type: 'heatmap', x: names, y: names, z: shares.map(row => row.map(Math.sqrt)),
    zmin: 0, zmax: 10, showscale: false, xgap: 2, ygap: 2,
    text: shares.map(row => row.map(short)), texttemplate: '%{text}',
    customdata: counts.map((row, i) => row.map((n, j) => [n, shares[i][j]])),
    hovertemplate: 'true %{y}, predicted %{x}<br>%{customdata[0]:,} nodes, ' +
      '%{customdata[1]:.2f} %<extra></extra>',
    colorscale: [[0, 'rgba(47,126,216,0.05)'], [1, 'rgb(47,126,216)']]};
  draw('confusion-matrix', counts.length ? [trace] : [], {margin: {l: 20, r: 10, t: 10, b: 20},
    xaxis: {...category, title: {text: 'predicted'}},
    yaxis: {...category, title: {text: 'true'}, autorange: 'reversed'},
    annotations: counts.length ? [] : [nothing('no confusion matrix here')]});
}
for (const [name, redraw] of [['curve', drawCurves], ['confusion', drawConfusion]]) {
  if (!find(name + '-dataset')) continue;
  for (const kind of kinds) find(name + '-' + kind).addEventListener('change', redraw);
  redraw();
}
// A chart in a closed part has no size, so that it gets one when the part is opened.
for (const part of document.querySelectorAll('details')) part.addEventListener('toggle', () => {
  if (part.open) for (const chart of part.querySelectorAll('.js-plotly-plot')) Plotly.Plots.resize(chart);
});
