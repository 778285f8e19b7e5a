// The labelling page: its parts put together, its keys and buttons, and what its server tells.
import {brief, count, isolated} from './elements.js';
import {ask, remember, remembered, send, windowId} from './label_api.js';
import {makeClassField} from './label_choices.js';
import {Decisions} from './label_decisions.js';
import {openExport, openHelp} from './label_dialogs.js';
import {listen} from './label_events.js';
import {assignKeys} from './label_keys.js';
import {LabelMap} from './label_map.js';
import {closeNotices, forget, notify, tell} from './label_notices.js';
import {find, hint} from './label_parts.js';
import {drawModel, drawProgress} from './label_progress.js';
import {CardQueue} from './label_queue.js';
import {Recent} from './label_recent.js';
import {Stage} from './label_stage.js';
import {listenToKeys} from './label_typing.js';

const ownWindow = await windowId();
// What the page knows: the answer to /api/start, and what has come since.
const state = {start: null, n: 0, version: 0, classes: [], keys: [], model: null, progress: null,
  training: {running: false, waiting: 0}};

// --- The parts ---

const queue = new CardQueue(ownWindow, () => decisions.pendingRows, () => stage.drawQueue());
const recent = new Recent({window: ownWindow, classes: () => state.classes, onOpen: openRecent});
const map = new LabelMap({classes: () => state.classes, pictures: () => state.start?.pictures,
  pending: () => decisions.pendingLabels, onChoose: row => stage.openRow(row, 'map'),
  onLoop: rows => stage.openSheet(rows)});
const stage = new Stage({state, queue, map, onLabel: name => decisions.label(name),
  onUndo: together => decisions.undoTogether(together)});
const decisions = new Decisions({window: ownWindow, state, recent, map, stage, onAnswer: learn,
  onClasses: setClasses});

// --- What is known ---

/** Take what an answer or an event says of the whole. */
function learn({version, classes, labelled}) {
  state.version = Math.max(state.version, version ?? 0);
  if (classes) setClasses(classes);
  if (labelled === undefined || !state.progress) return;
  state.progress.labelled = labelled;
  drawProgress(state.progress, state.n);
}
function setClasses(classes) {
  const old = state.classes, begins = (whole, part) => part.every((name, place) => name === whole[place]);
  // A class that got its name here is not in the server's list before its label is.
  if (begins(old, classes) && (classes.length === old.length || decisions.pendingLabels.length)) return;
  Object.assign(state, {classes, keys: assignKeys(classes)});
  // Another window named a class first, so that the map counts classes in another order.
  if (!begins(classes, old)) map.reload().catch(tell);
  stage.redraw();
}
function showModel() {
  const {model, training} = state;
  drawModel(model, training);
  find('changed-count').textContent = model?.changed ? count(model.changed) + ' ' : '';
  if (training.error) notify('training', [training.error], {bad: true, closes: true});
  else forget('training');
}

// --- Keys and buttons ---

function openRecent(entry) {
  const {event, count: rows, row} = entry;
  recent.opened = recent.entries.indexOf(entry);
  stage.openRow(row, 'recent', rows > 1 && event ? {together: {event, rows}} : {});
}
const commands = {
  undo() { decisions.undo(); },
  skip() { decisions.skip(); },
  clear() { if (stage.card?.label) decisions.label(null); },
  likeliest() {
    const {card} = stage;
    if (stage.scene.kind === 'doubtful') decisions.keep();
    else if (card?.hidden) hint('The guess of an audit row is hidden. Choose a class.');
    else if (card?.likely?.length) decisions.label(card.likely[0][0]);
    else hint('There is no guess yet. Choose a class.');
  },
  newClass() {
    if (stage.scene.kind === 'changed') stage.showQueue();
    find(stage.scene.kind === 'sheet' ? 'sheet-class-name' : 'card-class-name').focus();
  },
  find() {
    find('wanted').focus();
    find('wanted').select();
  },
  recent() {
    const {entries} = recent, next = stage.card?.way === 'recent' ? recent.opened + 1 : 0;
    if (entries.length) openRecent(entries[next % entries.length]);
  },
  async train() {
    try {
      state.training = (await send('/api/train', {window: ownWindow})).training;
      showModel();
    } catch (error) { tell(error); }
  },
  colour() { hint('The map is coloured by ' + map.nextMode()); },
  loop() { hint(map.toggleLoop() ? 'Draw around rows on the map' : 'The map moves again'); },
  doubtful() { stage.openDoubtful(); },
  changed() { stage.openChanged(); },
  queue() { stage.showQueue(); },
  exports() { openExport(state.start ?? {}, ownWindow); },
  help() { openHelp(state.classes, state.keys); },
  leave() {
    if (map.isLooping) map.toggleLoop();
    else if (!stage.isQueue) stage.leave();
    else closeNotices();
  },
};
const BUTTONS = {undo: 'undo', skip: 'skip', keep: 'likeliest', clear: 'clear', back: 'leave', train: 'train',
  loop: 'loop', 'show-queue': 'queue', 'show-doubtful': 'doubtful', 'show-changed': 'changed',
  'show-export': 'exports', 'show-help': 'help', 'leave-sheet': 'leave', 'leave-changed': 'leave'};
for (const [id, name] of Object.entries(BUTTONS)) find(id).addEventListener('click', () => commands[name]());
for (const [id, does] of [['card-class', 'label'], ['sheet-class', 'label all']])
  makeClassField(find(id), () => state.classes, does, name => decisions.label(name));
listenToKeys(() => state.keys, name => commands[name](), place => decisions.label(state.classes[place]));
find('search').addEventListener('submit', async event => {
  event.preventDefault();
  const id = find('wanted').value;
  if (!id.trim()) return;
  // Now, not when the answer comes: somebody may be typing again by then.
  find('wanted').blur();
  try {
    const {row} = await ask('/api/find?id=' + encodeURIComponent(id));
    forget('trouble');
    stage.openRow(row, 'find');
  } catch (error) { tell(error); }
});
addEventListener('beforeunload', event => { if (decisions.outbox.entries.length) event.preventDefault(); });

// --- What the server tells ---

const stream = listen({
  training(training) {
    Object.assign(state, {training});
    showModel();
  },
  model({progress, ...model}) {
    Object.assign(state, {model, progress});
    drawProgress(progress, state.n);
    showModel();
    map.reload().catch(tell);
    queue.fill(true);
    giveGuess();
  },
  label(event) {
    learn(event);
    recent.setKept(event.recent);
    forget('notes');  // whoever labels has read them
    if (event.window === ownWindow) return;
    if (event.rows === null) map.reload().catch(tell);
    else map.setLabels(event.rows, event.labels ?? event.rows.map(() => event.label));
    labelledElsewhere(new Set(event.rows ?? []), event.label);
  },
  map(places) { map.move(places).catch(tell); },
  notice({text, bad}) { notify('notice', [text], {bad, closes: true}); },
}, lost, back);

// A card on the screen keeps its guess, lest a key mean another class than a moment ago; one without gets it.
async function giveGuess() {
  const {card} = stage;
  if (!card || card.likely || card.hidden) return;
  const {likely, model} = await ask(`/api/rows/${card.row}/card`).catch(() => ({}));
  if (!likely || card !== stage.card) return;
  Object.assign(card, {likely, model});
  stage.drawRow();
}
function labelledElsewhere(rows, label) {
  const {card} = stage;
  queue.drop(rows);
  if (!card || !rows.has(card.row)) return;
  Object.assign(card, {elsewhere: label, label, by: label === null ? null : 'person'});
  stage.drawRow();
}
function lost() {
  notify('connection', ['Connection lost, retrying. What you label is kept in this page until it is back.'],
    {bad: true});
  // The stream does not say why it broke; this does.
  ask('/api/start').catch(error => { if (error.status === 401) tell(error); });
}
async function back() {
  forget('connection');
  forget('session');
  await begin().catch(tell);
  decisions.outbox.retry();
}

/** Take the state of the server as it is now. */
async function begin() {
  const start = await ask('/api/start');
  const {n, version, model, training, progress} = start;
  Object.assign(state, {start, n, version, model, training, progress});
  setClasses(start.classes);
  recent.setKept(start.recent);
  drawProgress(progress, n);
  showModel();
  showNotes(start);
  await Promise.all([queue.fill(true), map.map ? map.reload() : map.load(start.map, n)]);
  await map.move(start.map);
  stage.show(stage.scene);
}
function showNotes({notes}) {
  // A note is shown once in a tab.
  const read = remembered('notes') ?? [], fresh = notes.filter(text => !read.includes(text));
  if (fresh.length) notify('notes', fresh.flatMap(text => [isolated(brief(text, 400)), ' ']), {closes: true});
  remember('notes', notes);
}
async function open() {
  // Once the stream is open, nothing that happens after the start is missed.
  await Promise.race([stream, new Promise(resolve => { setTimeout(resolve, 1500); })]);
  try {
    await begin();
    decisions.resume();
  } catch (error) {
    tell(error);
    if (error.status !== 401) setTimeout(open, 3000);
  }
}
setInterval(() => drawModel(state.model, state.training), 1000);
open();
