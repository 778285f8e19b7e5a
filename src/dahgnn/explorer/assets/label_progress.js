// How far the labels are, how right the model is as far as audit rows tell, and how old the model is.
import {count, make, percent} from './elements.js';
import {find, howMany} from './label_parts.js';

/** Show the progress. @param {object} progress @param {number} n - How many rows there are. */
export function drawProgress(progress, n) {
  const {labelled, audits, accuracy, low, high, says, helps, history} = progress;
  const share = Object.assign(make('progress'), {max: n, value: labelled});
  share.setAttribute('aria-label', 'Rows with a label');
  const counts = make('p', 'progress-counts', make('b', '', count(labelled)),
    ` of ${howMany(n, 'row')} labelled`, share);
  const known = accuracy !== null && accuracy !== undefined;
  const number = make('p', 'accuracy', make('b', '', known ? percent(accuracy) : '–'), make('span', '',
    known ? `right, ${percent(low)} to ${percent(high)}` : 'not known yet',
    make('small', '', `from ${howMany(audits, 'audit row')}`)));
  find('progress').dataset.helps = helps;
  find('progress-body').replaceChildren(counts, number, make('p', 'says', says), historyChart(history));
}

const WIDE = 240, HIGH = 76, EDGE = 4;
function historyChart(history) {
  const known = history.filter(each => each.accuracy !== null && each.accuracy !== undefined);
  const most = known.at(-1)?.labels, least = known[0]?.labels;
  if (!(most > least)) return make('div', 'history none');
  const floor = Math.min(...known.map(each => each.low ?? each.accuracy));
  const across = each => (EDGE + (WIDE - 2 * EDGE) * (each.labels - least) / (most - least)).toFixed(1);
  const up = value => (HIGH - EDGE - (HIGH - 2 * EDGE) * (value - floor) / (1 - floor || 1)).toFixed(1);
  const line = (each, of) => `${across(each)} ${up(of(each))}`;
  const band = [...known.map(each => line(each, it => it.high ?? it.accuracy)),
    ...known.toReversed().map(each => line(each, it => it.low ?? it.accuracy))];
  const svg = svgOf('svg', {viewBox: `0 0 ${WIDE} ${HIGH}`, role: 'img', preserveAspectRatio: 'none',
    'aria-label': `Accuracy by labels: ${percent(known[0].accuracy)} with ${howMany(least, 'label')}, ` +
      `${percent(known.at(-1).accuracy)} with ${howMany(most, 'label')}`});
  svg.append(svgOf('path', {class: 'band', d: 'M' + band.join('L') + 'Z'}),
    svgOf('path', {class: 'line', d: 'M' + known.map(each => line(each, it => it.accuracy)).join('L')}));
  const ends = make('div', 'ends', make('span', '', howMany(least, 'label')), make('span', '', count(most)));
  const title = make('div', 'ends', make('span', '', `accuracy, ${percent(floor)} to 100\u00a0%`));
  return make('div', 'history', title, svg, ends);
}
function svgOf(name, values) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(values)) element.setAttribute(key, value);
  return element;
}

/** Say how old the model is and how many labels wait for the next, and show how far the next is. */
export function drawModel(model, training, now = Date.now() / 1000) {
  const words = [model ? `model ${model.number}` : 'no model yet'];
  if (model) words.push(age(Math.max(0, now - model.finished)));
  if (training.waiting) words.push(howMany(training.waiting, 'label') + ' waiting');
  if (training.running && !model) words.push('training');
  const text = words.join(' · ');
  if (find('model-age').textContent !== text) find('model-age').textContent = text;
  find('model-age').title = model?.says ?? '';
  const bar = find('training');
  bar.hidden = !training.running;
  bar.value = training.share ?? 0;
  bar.title = training.phase ?? '';
  bar.setAttribute('aria-valuetext', training.phase ?? '');
}
function age(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s ago`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min ago`;
  return `${Math.round(seconds / 3600)} h ago`;
}
