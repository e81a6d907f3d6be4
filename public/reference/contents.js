// @ts-check
import { byId, el } from '../console/ui/dom.js';
import { methodBadge } from './operation-view.js';

/** @import { ApiDocument } from './document.js' */

const wide = matchMedia('(min-width: 60rem)');

/**
 * The list of all operations that leads to each.
 * @param {ApiDocument} document
 */
export function showContents(document) {
  const groups = document.groups.map(({ name, operations }) => {
    const links = operations.map(({ id, method, path }) =>
      el('li', {}, el('a', { href: `#${id}` }, methodBadge(method), el('span', { class: 'path' }, path))),
    );
    return el('li', {}, el('span', { class: 'group' }, name), el('ul', {}, ...links));
  });
  byId('contents-list', HTMLUListElement).replaceChildren(...groups);
  const contents = byId('contents', HTMLDetailsElement);
  contents.hidden = false;
  // Beside the text it stays open; above it, it would push the text off the screen.
  contents.open = wide.matches;
  wide.addEventListener('change', () => {
    contents.open = wide.matches;
  });
}
