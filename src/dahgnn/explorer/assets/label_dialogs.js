// The two dialogs: all keys, and what can be taken away. A dialog of the browser keeps the focus inside and gives
// it back.
import {brief, button, isolated, make} from './elements.js';
import {send} from './label_api.js';
import {COMMANDS} from './label_keys.js';
import {find, keycap} from './label_parts.js';

const caps = key => key.split('+').flatMap((part, at) => [...at ? [' + '] : [], keycap(part)]);

function open(dialog, title, ...nodes) {
  const close = button('close', 'mode', () => dialog.close());
  const heading = make('h2', '', title);
  heading.id = dialog.id + '-title';
  dialog.replaceChildren(make('div', 'head', heading, close), ...nodes);
  if (!dialog.open) dialog.showModal();
}

/** Show all keys. @param {string[]} classes @param {object[]} keys */
export function openHelp(classes, keys) {
  const line = (key, ...words) => {
    const head = make('th', '', ...key);
    head.scope = 'row';
    return make('tr', '', head, make('td', '', ...words));
  };
  const table = rows => make('table', 'all-keys', make('tbody', '', ...rows));
  const classRows = classes.map((name, place) => [keys[place], name])
    .filter(([{digit, letter}]) => digit || letter)
    .map(([{digit, letter}, name]) => line([digit, letter].filter(Boolean).flatMap((key, at) =>
      [...at ? [' or '] : [], keycap(key)]), isolated(brief(name))));
  open(find('help'), 'Keys', make('h3', '', 'Commands'),
    table(COMMANDS.map(([, key, does]) => line(caps(key), does))),
    make('h3', '', 'Classes'), classRows.length ? table(classRows) :
      make('p', 'note', 'There is no class yet; Shift+N names the first.'),
    make('h3', '', 'On the map, when it has the focus'),
    table([line([keycap('+'), ' ', keycap('−')], 'zoom'), line([keycap('←'), ' … '], 'move'),
      line([keycap('0')], 'show all rows'), line([keycap('Enter')], 'open the row in the middle'),
      line([keycap('Shift'), ' + drag'], 'draw around rows')]));
}

/** Show what can be exported. @param {object} start @param {string} window */
export function openExport({journal, fit_folder: folder}, window) {
  const link = (path, text) => Object.assign(make('a', 'mode', text), {href: path, download: ''});
  const done = make('p', 'sentence');
  done.setAttribute('role', 'status');
  const write = button('write the fit folder', 'mode', async () => {
    write.disabled = true;
    done.textContent = 'Writing …';
    try {
      const {folder: where, files} = await send('/api/export-fit', {window});
      done.replaceChildren(`Written: ${files.length} files in `, isolated(where), '.');
    } catch (error) {
      done.textContent = error.message;
    }
    write.disabled = false;
  });
  open(find('export'), 'Export',
    make('p', '', 'All rows with their label, who gave it (the file, a person or the model), its probability ' +
      'and the time.'),
    make('p', 'buttons', link('/api/export.csv', 'CSV'), link('/api/export.parquet', 'Parquet')),
    make('p', '', 'The fit as a folder, which dahgnn predict and dahgnn explain take: ', isolated(folder ?? '')),
    make('p', 'buttons', write), done,
    make('p', 'note', 'Your file stays as it is. Labels are kept in ', isolated(journal ?? ''), '.'));
}
