// The labelling page: what stands on the stage, and what a decision does.
import {brief, button, count, isolated} from './elements.js';
import {Refusal, ask, newKey, remember, remembered, send, windowId} from './label_api.js';
import {drawCard, drawNoCard} from './label_card.js';
import {makeClassField} from './label_choices.js';
import {openExport, openHelp} from './label_dialogs.js';
import {listen} from './label_events.js';
import {assignKeys} from './label_keys.js';
import {Doubtful, drawChanged} from './label_lists.js';
import {LabelMap} from './label_map.js';
import {closeNotices, forget, notify} from './label_notices.js';
import {Outbox} from './label_outbox.js';
import {find, howMany, say} from './label_parts.js';
import {drawModel, drawProgress} from './label_progress.js';
import {CardQueue, preload} from './label_queue.js';
import {Recent} from './label_recent.js';
import {drawSheet, drawSheetChoices} from './label_sheet.js';
import {listenToKeys} from './label_typing.js';
import {Why} from './label_why.js';

const NO_SESSION = 'This page may not talk to its server any more. Take a fresh address from the terminal where ' +
  'dahgnn label runs.';
const window_ = await windowId();
const state = {started: false, n: 0, version: 0, classes: [], keys: [], model: null, progress: null,
  training: {running: false, waiting: 0}, stage: {kind: 'queue'}, done: []};

// --- The parts ---

const outbox = new Outbox({onChange: showOutbox, onAnswer: confirmed, onRefusal: refused});
const isLabel = entry => entry.path === '/api/label';
const pendingRows = () => outbox.entries.flatMap(({body}) => body.rows ?? (body.row === undefined ? [] : [body.row]));
const queue = new CardQueue(window_, pendingRows, () => { if (state.stage.kind === 'queue') drawQueue(); });
const recent = new Recent({window: window_, classes: () => state.classes, onOpen: entry => openRecent(entry)});
const map = new LabelMap({classes: () => state.classes, pictures: () => state.start?.pictures,
  pending: () => outbox.entries.filter(isLabel).map(({body}) => [body.rows, body.label]),
  onChoose: row => openRow(row, 'map'), onLoop: openSheet});
const why = new Why({classes: () => state.classes, onOpen: row => openRow(row, 'map'),
  onLinks: links => map.link(links)});
const doubtful = new Doubtful();
const entriesOf = new Map();

// --- Trouble ---

function tell(error) {
  if (!(error instanceof Refusal)) throw error;
  if (error.status === 401) notify('session', [NO_SESSION], {bad: true});
  else notify('trouble', [error.message], {bad: true, closes: true});
}
function showOutbox() {
  for (const entry of outbox.entries) {
    const own = entriesOf.get(entry.body.key);
    if (own) own.state = entry.state;
  }
  recent.draw();
  const {trouble, entries} = outbox;
  if (!trouble) return forget('outbox');
  const what = howMany(entries.length, 'action'), is = entries.length === 1 ? 'is' : 'are';
  notify('outbox', [trouble.status === 401 ? NO_SESSION + ' ' : trouble.message + ' ',
    `${what} ${is} not saved yet; the page keeps trying.`], {bad: true,
    actions: [['try now', () => outbox.retry()]]});
}
function confirmed(entry, answer) {
  setVersion(answer.version);
  if (answer.classes) setClasses(answer.classes);
  if (answer.labelled !== undefined) setLabelled(answer.labelled);
  const own = entriesOf.get(entry.body.key);
  if (own) Object.assign(own, {state: 'saved', event: answer.event});
  entriesOf.delete(entry.body.key);
  if (entry.path === '/api/undo') undone(entry, answer);
}
function refused(entry, refusal) {
  const own = entriesOf.get(entry.body.key), {rows, label} = entry.body;
  if (own) own.state = 'refused';
  if (refusal.status === 404 && entry.path === '/api/undo') return say('There is nothing to undo.');
  if (isLabel(entry)) map.reload().catch(tell);
  if (refusal.status !== 409 || !isLabel(entry)) return tell(refusal);
  setVersion(refusal.body.version);
  const {conflicts} = refusal.body, [first] = conflicts, mine = label === null ? 'no label' : brief(label);
  const theirs = first.label === null ? 'took its label away' : 'labelled it ';
  notify('conflict-' + newKey(), [`Row `, isolated(brief(first.id)), `: another window ${theirs}`,
    ...first.label === null ? [] : [isolated(brief(first.label))],
    ...conflicts.length > 1 ? [` (and ${count(conflicts.length - 1)} more of this loop)`] : [], '. Yours was ',
    isolated(mine), ', which is not saved.'], {bad: true, actions: [
    ['use mine', event => {
      closeNotice(event);
      if (own) recent.remove(own);
      labelRows(rows, label, entry.body.way, entry.about);
    }],
    ['keep theirs', event => {
      closeNotice(event);
      if (own) recent.remove(own);
    }]]});
}
const closeNotice = event => event.currentTarget.closest('.notice').remove();
addEventListener('beforeunload', event => { if (outbox.entries.length) event.preventDefault(); });

// --- What is known ---

function setVersion(version) { state.version = Math.max(state.version, version ?? 0); }
function setClasses(classes) {
  const old = state.classes, isPrefix = (a, b) => a.every((name, place) => name === b[place]);
  // A class of ours that is on its way to the server is not in its list yet.
  if (classes.length < old.length && isPrefix(classes, old) && outbox.entries.some(isLabel)) return;
  if (classes.length === old.length && isPrefix(classes, old)) return;
  Object.assign(state, {classes, keys: assignKeys(classes)});
  if (!isPrefix(old, classes)) map.reload().catch(tell);
  redrawChoices();
}
function setLabelled(labelled) {
  if (!state.progress) return;
  state.progress.labelled = labelled;
  drawProgress(state.progress, state.n);
}
function showModel() {
  drawModel(state.model, state.training);
  find('changed-count').textContent = state.model?.changed ? count(state.model.changed) + ' ' : '';
  if (state.training.error) notify('training', [state.training.error], {bad: true, closes: true});
  else forget('training');
}

// --- The stage ---

function show(stage) {
  state.stage = stage;
  const {kind} = stage, isCard = ['queue', 'row', 'doubtful'].includes(kind);
  find('card').hidden = !isCard;
  find('sheet').hidden = kind !== 'sheet';
  find('changed').hidden = kind !== 'changed';
  for (const [id, own] of [['queue', 'queue'], ['doubtful', 'doubtful'], ['changed', 'changed']])
    find('show-' + id).setAttribute('aria-pressed', kind === own);
  map.raise(kind === 'sheet' ? stage.rows : stage.back?.kind === 'sheet' ? stage.back.rows : null);
  if (!isCard) {
    why.clear();
    map.choose(-1);
  } else if (kind === 'queue') drawQueue();
  else drawStageCard();
}
const currentCard = () => state.stage.kind === 'queue' ? queue.current : state.stage.card ?? null;
let drawn = null;
function drawQueue() {
  const card = queue.current;
  if (card && card === drawn) return;
  if (card) drawStageCard();
  else {
    drawn = null;
    showActions(null);
    why.clear();
    map.choose(-1);
    if (queue.trouble) drawNoCard('No row', queue.trouble.message);
    else if (queue.left === null || queue.asking) drawNoCard('One moment', 'The next row is on its way.');
    else drawNoCard('All rows are done', 'No row is left to ask about. Export the labels, or look for doubtful ones.');
  }
}
function drawStageCard() {
  const card = drawn = currentCard();
  drawCard(card, {classes: state.classes, keys: state.keys, notes: notesOf(card), onLabel: label});
  showActions(card);
  map.choose(card.row);
  why.show(card);
}
function notesOf(card) {
  const notes = [];
  if (state.stage.kind === 'doubtful') notes.push(doubtful.sentence());
  if (card.elsewhere !== undefined) notes.push(card.elsewhere === null ? ['Another window took its label away.'] :
    ['Another window has just labelled it ', isolated(brief(card.elsewhere)), '.']);
  if (card.together) notes.push([`It was labelled together with ${howMany(card.together.rows - 1, 'other')}. `,
    button(`undo all ${count(card.together.rows)}`, 'link', () => undoTogether(card.together))]);
  if (!state.classes.length) notes.push(['No class has a name yet. Press Shift+N and name the class of this row.']);
  return notes;
}
function showActions(card) {
  const {kind} = state.stage;
  find('keep').hidden = kind !== 'doubtful';
  find('clear').hidden = !card || card.label === null;
  find('back').hidden = kind === 'queue';
  find('skip').firstChild.textContent = kind === 'doubtful' ? 'next ' : kind === 'row' ? 'back ' : 'skip ';
  find('skip').hidden = !card || kind === 'row';
}
function redrawChoices() {
  if (state.stage.kind === 'sheet') drawSheetChoices(state.stage.rows, sheetOptions());
  else if (currentCard() && drawn) drawStageCard();
}
const leaveStage = () => show(state.stage.back ?? {kind: 'queue'});

async function openRow(row, way, more = {}) {
  try {
    const card = preload({...await ask(`/api/rows/${row}/card`), way, ...more});
    const {stage} = state;
    show({kind: 'row', card, back: stage.kind === 'row' ? stage.back : stage});
    find('card').focus({preventScroll: true});
    find('card').scrollIntoView({block: 'nearest'});
  } catch (error) { tell(error); }
}
function openRecent(entry) {
  state.reopened = recent.entries.indexOf(entry);
  const {event, count: rows} = entry;
  openRow(entry.row, 'recent', rows > 1 && event ? {together: {event, rows}} : {});
}
// Many rows that were labelled at once can be given back at once.
function undoTogether({event}) {
  outbox.add('/api/undo', {window: window_, event}, {known: true});
  state.done = [];
  leaveStage();
}
const sheetOptions = () => ({classes: state.classes, keys: state.keys, onLabel: label,
  onOpen: row => openRow(row, 'loop')});
async function openSheet(found) {
  const rows = [...found];
  if (!rows.length) return say('No row is inside the loop.');
  show({kind: 'sheet', rows});
  say(howMany(rows.length, 'row') + ' inside the loop');
  try {
    await drawSheet(rows, sheetOptions());
    find('sheet').scrollIntoView({block: 'nearest'});
  } catch (error) {
    tell(error);
    show({kind: 'queue'});
  }
}
async function openDoubtful() {
  try {
    await doubtful.load();
    await showDoubt();
  } catch (error) { tell(error); }
}
async function showDoubt() {
  if (!doubtful.current) {
    show({kind: 'queue'});
    return notify('doubtful', ['No label looks doubtful.'], {closes: true});
  }
  const card = preload({...await ask(`/api/rows/${doubtful.current.row}/card`), way: 'doubtful'});
  show({kind: 'doubtful', card});
}
async function openChanged() {
  show({kind: 'changed'});
  await drawChanged(state.classes, row => openRow(row, 'map')).catch(tell);
}

// --- Decisions ---

function labelRows(rows, label, way, about) {
  if (label !== null && !state.classes.includes(label)) setClasses([...state.classes, label]);
  const before = rows.map(row => map.labelOf(row));
  const what = {...about, row: rows[0], count: rows.length, label, way, window: window_, seen: state.version};
  const own = recent.add(what);
  map.setLabels(rows, rows.map(() => label));
  const entry = outbox.add('/api/label', {window: window_, rows, label, way, seen: state.version}, what);
  entriesOf.set(entry.body.key, own);
  return before;
}
const aboutOf = card => ({id: card.id, picture: card.picture});
function label(name) {
  const {stage} = state;
  if (stage.kind === 'sheet') {
    const rows = stage.rows, before = labelRows(rows, name, 'loop', {id: '', picture: state.start.pictures});
    state.done.push({rows, before, stage});
    say(`${howMany(rows.length, 'row')}: ${brief(name)}`);
    queue.drop(new Set(rows));
    return show({kind: 'queue'});
  }
  const card = currentCard();
  if (!card) return;
  const before = labelRows([card.row], name, card.way, aboutOf(card));
  state.done.push({rows: [card.row], before, card, stage});
  say(`Row ${brief(card.id)}: ${name === null ? 'no label' : brief(name)}` + verdict(card, name));
  leaveCard(card, true);
}
// An audit row's guess was hidden; now it may be told.
const verdict = (card, name) => !card.hidden || !card.likely?.length ? '' :
  card.likely[0][0] === name ? '. The model had guessed the same.' : `. The model had guessed ${brief(card.likely[0][0])}.`;
function leaveCard(card, settled) {
  const {stage} = state;
  if (stage.kind === 'doubtful') {
    doubtful.next(settled);
    showDoubt().catch(tell);
  } else if (stage.kind === 'queue') {
    queue.advance();
    drawQueue();
  } else {
    if (settled) queue.cards[0]?.row === card.row ? queue.advance() : queue.drop(new Set([card.row]));
    leaveStage();
  }
}
function skip() {
  const card = currentCard(), {kind} = state.stage;
  if (!card) return;
  if (kind === 'queue') {
    outbox.add('/api/skip', {window: window_, row: card.row, seen: state.version}, aboutOf(card));
    state.done.push({rows: [], before: [], card, stage: state.stage});
    say(`Row ${brief(card.id)}: skipped`);
  }
  leaveCard(card, false);
}
function keep() {
  const card = currentCard();
  outbox.add('/api/keep', {window: window_, row: card.row, seen: state.version}, aboutOf(card));
  say(`Row ${brief(card.id)}: its label is kept`);
  leaveCard(card, true);
}
function undo() {
  const last = state.done.pop();
  outbox.add('/api/undo', {window: window_, event: null}, {known: Boolean(last)});
  if (!last) return;
  const {rows, before, card, stage} = last;
  if (rows.length) {
    map.setLabels(rows, before);
    recent.undo(rows[0]);
  }
  say('Undone' + (card ? `: row ${brief(card.id)}` : ''));
  if (!card) return show(stage);
  Object.assign(card, {label: before[0] ?? card.label});
  if (stage.kind === 'queue') {
    queue.putBack(card);
    drawn = null;
    show({kind: 'queue'});
  } else show({...stage, kind: 'row', card});
}
function undone(entry, {rows = [], labels = []}) {
  map.setLabels(rows, labels);
  if (!entry.about.known && rows.length) openRow(rows[0], 'recent');
}
async function train() {
  try {
    state.training = (await send('/api/train', {window: window_})).training;
    showModel();
  } catch (error) { tell(error); }
}

// --- Keys and buttons ---

const commands = {
  undo, skip, train,
  likeliest() {
    const card = currentCard();
    if (state.stage.kind === 'doubtful') return keep();
    if (!card) return;
    if (card.hidden) return say('The guess of an audit row is hidden. Choose a class.');
    if (!card.likely?.length) return say('There is no guess yet. Choose a class.');
    label(card.likely[0][0]);
  },
  clear() { if (currentCard()?.label) label(null); },
  newClass() {
    if (state.stage.kind === 'changed') show({kind: 'queue'});
    find(state.stage.kind === 'sheet' ? 'sheet-class-name' : 'card-class-name').focus();
  },
  find() { find('wanted').focus(); find('wanted').select(); },
  recent() {
    const {entries} = recent, next = state.stage.card?.way === 'recent' ? state.reopened + 1 : 0;
    if (entries.length) openRecent(entries[next % entries.length]);
  },
  colour() { say('The map is coloured by ' + map.nextMode()); },
  loop() { say(map.toggleLoop() ? 'Draw around rows on the map' : 'The map moves again'); },
  doubtful: openDoubtful, changed: openChanged,
  queue() { show({kind: 'queue'}); },
  exports() { openExport(state.start ?? {}, window_); },
  help() { openHelp(state.classes, state.keys); },
  leave() {
    if (map.isLooping) map.toggleLoop();
    else if (state.stage.kind !== 'queue') leaveStage();
    else closeNotices();
  },
};
listenToKeys(() => state.keys, name => commands[name](), place => label(state.classes[place]));
for (const [id, name] of Object.entries({undo: 'undo', skip: 'skip', keep: 'likeliest', clear: 'clear', back: 'leave',
  train: 'train', 'show-queue': 'queue', 'show-doubtful': 'doubtful', 'show-changed': 'changed',
  'show-export': 'exports', 'show-help': 'help'})) find(id).addEventListener('click', () => commands[name]());
for (const id of ['card-class', 'sheet-class']) makeClassField(find(id), () => state.classes, label);
for (const element of document.querySelectorAll('[data-leave]')) element.addEventListener('click', leaveStage);
find('search').addEventListener('submit', async event => {
  event.preventDefault();
  const id = find('wanted').value;
  if (!id.trim()) return;
  try {
    const {row} = await ask('/api/find?id=' + encodeURIComponent(id));
    forget('trouble');
    find('wanted').blur();
    openRow(row, 'find');
  } catch (error) { tell(error); }
});

// --- What the server tells ---

const ready = listen({
  training(training) { Object.assign(state, {training}); showModel(); },
  model({progress, ...model}) {
    Object.assign(state, {model, progress});
    drawProgress(progress, state.n);
    showModel();
    map.reload().catch(tell);
    queue.fill(true);
    giveGuess();
  },
  label(event) {
    setVersion(event.version);
    setClasses(event.classes);
    setLabelled(event.labelled);
    recent.setKept(event.recent);
    if (event.window === window_) return;
    if (event.rows === null) map.reload().catch(tell);
    else map.setLabels(event.rows, event.labels ?? event.rows.map(() => event.label));
    labelledElsewhere(event);
  },
  map(places) { map.move(places).catch(tell); },
  notice({text, bad}) { notify('notice', [text], {bad, closes: true}); },
}, lost, restart);

// A card on the screen keeps its guess, lest a key mean another class than a moment ago; one without gets it.
async function giveGuess() {
  const card = currentCard();
  if (!card || card.likely || card.hidden) return;
  const {likely, model} = await ask(`/api/rows/${card.row}/card`).catch(() => ({}));
  if (!likely || card !== currentCard()) return;
  Object.assign(card, {likely, model});
  drawStageCard();
}
function labelledElsewhere({rows, label: name}) {
  const changed = new Set(rows ?? []), card = currentCard();
  queue.drop(changed);
  if (!card || !changed.has(card.row)) return;
  Object.assign(card, {elsewhere: name, label: name, by: name === null ? null : 'person'});
  drawStageCard();
}
function lost() {
  notify('connection', ['Connection lost, retrying. What you label is kept in this page until it is back.'], {bad: true});
  ask('/api/start').catch(error => { if (error.status === 401) tell(error); });
}
async function restart() {
  forget('connection');
  forget('session');
  await begin().catch(tell);
  outbox.retry();
}

/** Take the state of the server as it is now. */
async function begin() {
  const start = await ask('/api/start');
  Object.assign(state, {start, started: true, n: start.n, version: start.version, model: start.model,
    training: start.training, progress: start.progress});
  setClasses(start.classes);
  recent.setKept(start.recent);
  drawProgress(start.progress, start.n);
  showModel();
  if (start.full) notify('full', ['The disk is full. Labels cannot be saved until there is room.'], {bad: true});
  else forget('full');
  // A note is shown once in a tab.
  const read = remembered('notes') ?? [];
  start.notes.forEach((text, place) => {
    if (!read.includes(text)) notify('note-' + place, [isolated(brief(text, 400))], {closes: true});
  });
  remember('notes', start.notes);
  await Promise.all([queue.fill(true), map.map ? map.reload() : map.load(start.map, start.n)]);
  await map.move(start.map);
  show(state.stage);
}
async function open() {
  await Promise.race([ready, new Promise(resolve => { setTimeout(resolve, 1500); })]);
  try {
    await begin();
    for (const entry of outbox.resume()) if (isLabel(entry)) entriesOf.set(entry.body.key, recent.add(entry.about));
  } catch (error) {
    tell(error);
    if (error.status !== 401) setTimeout(open, 3000);
  }
}
setInterval(() => drawModel(state.model, state.training), 1000);
open();
