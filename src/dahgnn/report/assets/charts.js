// Charts by plotly whose colours follow the style sheet, in light and dark.
const tone = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const coarse = matchMedia('(pointer: coarse)').matches;
const drawn = new Map();
function themed(layout) {
  const copy = structuredClone(layout);
  Object.assign(copy, {paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)', autosize: true,
    font: {color: tone('--text'), size: 12.5, family: 'system-ui, sans-serif'},
    hoverlabel: {bgcolor: tone('--card'), bordercolor: tone('--line'), font: {color: tone('--text')},
      namelength: -1},
    modebar: {bgcolor: 'rgba(0,0,0,0)', color: tone('--line'), activecolor: tone('--text')}});
  // On a touch screen a drag must scroll the page.
  if (coarse) copy.dragmode = false;
  for (const key of Object.keys(copy).filter(key => /^[xy]axis/.test(key)))
    copy[key] = {gridcolor: tone('--grid'), linecolor: tone('--line'), zerolinecolor: tone('--faint'),
      ...copy[key]};
  return copy;
}
export function draw(id, traces, layout) {
  drawn.set(id, [traces, layout]);
  const own = traces.map(trace => ({...trace, textfont: {color: tone('--text')}}));
  return Plotly.react(id, own, themed(layout),
    {responsive: true, displaylogo: false, displayModeBar: coarse ? false : 'hover',
      // A tap sends two clicks, and two clicks would reset the view.
      doubleClick: coarse ? false : 'reset+autosize',
      modeBarButtonsToRemove: ['select2d', 'lasso2d', 'autoScale2d']});
}
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  for (const [id, [traces, layout]] of drawn) draw(id, traces, layout);
});
for (const button of document.querySelectorAll('.chip')) button.addEventListener('click', () => {
  const shown = button.getAttribute('aria-pressed') !== 'true';
  button.setAttribute('aria-pressed', shown);
  for (const [id, [traces, layout]] of drawn) {
    const mine = traces.filter(trace => trace.legendgroup === button.dataset.group);
    if (!mine.length) continue;
    for (const trace of mine) trace.visible = shown;
    draw(id, traces, layout);
  }
});
