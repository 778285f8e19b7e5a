// The explanation of a guess: the labelled rows that it comes from, and the hyperedges that carried it.
import {brief, button, cut, make, percent} from './elements.js';
import {ask} from './label_api.js';
import {find, named, shareBar, thumbnail} from './label_parts.js';

export class Why {
  /**
   * @param {object} options
   * @param {() => string[]} options.classes
   * @param {(row: number) => void} options.onOpen
   * @param {(links: number[][]) => void} options.onLinks - Pairs of a row and how much it counts, from 0 to 1.
   */
  constructor(options) {
    Object.assign(this, {options, asked: 0});
  }

  /** Show nothing, and forget what was asked. */
  clear() {
    this.asked++;
    find('why').hidden = true;
  }

  /** Ask why a row is guessed so, and show it unless another row has come meanwhile. */
  async show(card) {
    this.clear();
    if (card.hidden || !card.model) return;
    const asked = this.asked, why = await ask(`/api/rows/${card.row}/why`).catch(() => null);
    if (asked !== this.asked || !why?.model) return;
    find('why-body').replaceChildren(...this.#labelled(why), ...this.#edges(why));
    find('why').hidden = !why.labelled.length && !why.hyperedges.length;
    const most = why.labelled[0]?.weight || 1;
    this.options.onLinks(why.labelled.map(({row, weight}) => [row, Math.min(1, weight / most)]));
  }

  #labelled({labelled, rest}) {
    if (!labelled.length) return [];
    const most = Math.max(...labelled.map(each => each.weight)) || 1;
    const tiles = labelled.map(each => make('li', '', this.#tile(each, each.label, percent(each.weight),
      each.weight / most)));
    return [make('h3', '', 'Labelled rows behind it'), make('ul', 'tiles', ...tiles),
      make('p', 'note', `${percent(rest)} of the attention came from rows without a label.`)];
  }

  #tile(each, label, text, share) {
    const tile = button(thumbnail(each), 'tile', () => this.options.onOpen(each.row));
    tile.append(named(label, this.options.classes().indexOf(label)), ...each.picture ? [] : [cut(each.id)],
      shareBar(share));
    tile.title = `${brief(each.id, 300)}: ${text}`;
    tile.setAttribute('aria-label', `Row ${brief(each.id)}, ${brief(label ?? 'no label')}, ${text}`);
    return tile;
  }

  #edges({hyperedges}) {
    return hyperedges.length ? [make('h3', '', 'Hyperedges that carry it'),
      ...hyperedges.map(edge => this.#edge(edge))] : [];
  }

  #edge({weight, members}) {
    const classes = this.options.classes(), most = Math.max(...members.map(member => member.weight)) || 1;
    const rows = members.map(member => {
      const label = member.label ?? member.predicted, opener = button(cut(member.id), 'link', () =>
        this.options.onOpen(member.row));
      return make('tr', '', Object.assign(make('th', '', opener), {scope: 'row'}),
        make('td', '', named(label, classes.indexOf(label)), ' ',
          make('small', '', member.label === null ? 'guess' : 'label')),
        make('td', 'weight', percent(member.weight), shareBar(member.weight / most)));
    });
    const title = make('summary', '', `A hyperedge of ${members.length} rows, ${percent(weight)}`);
    return make('details', '', title, make('table', '', make('tbody', '', ...rows)));
  }
}
