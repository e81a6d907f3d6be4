// @ts-check
import { byId, el, focusWithSlash } from '../console/ui/dom.js';
import { text } from './document.js';
import { methodBadge } from './operation-view.js';

/** @import { ApiDocument, Operation } from './document.js' */

const wide = matchMedia('(min-width: 60rem)');

/**
 * The list of links to each section and operation. It marks the visible one, and a filter reduces both the
 * list and the page to the matching operations.
 * @param {ApiDocument} description
 */
export function showContents(description) {
  const operations = description.groups.flatMap((group) => group.operations);
  const groups = description.groups.map((group) => {
    const links = group.operations.map(({ id, title, method }) => item(id, title, methodBadge(method)));
    return el('li', {}, el('span', { class: 'group' }, group.name), el('ul', {}, ...links));
  });
  const sections = el('ul', {}, item('reference-title', 'Overview'), item('clients', 'Generate a client'));
  byId('contents-list', HTMLUListElement).replaceChildren(el('li', {}, sections), ...groups);
  const contents = byId('contents', HTMLDetailsElement);
  contents.hidden = false;
  // Keep the list open beside the text. Above the text it would cover it.
  const follow = () => {
    contents.open = wide.matches;
    for (const { id } of operations) setOpen(id, wide.matches);
    setOpen(location.hash.slice(1), true);
  };
  follow();
  wide.addEventListener('change', follow);
  contents.addEventListener('click', ({ target }) => {
    const link = target instanceof Element ? target.closest('a') : null;
    if (link === null) return;
    setOpen(link.hash.slice(1), true);
    contents.open = wide.matches;
  });
  addEventListener('hashchange', () => {
    const id = location.hash.slice(1);
    setOpen(id, true);
    document.getElementById(id)?.scrollIntoView();
  });
  filterBy(operations);
  markActive();
}

/**
 * @param {string} id
 * @param {string} title
 * @param {HTMLElement[]} badge
 */
function item(id, title, ...badge) {
  return el('li', {}, el('a', { href: `#${id}` }, ...badge, el('span', {}, title)));
}

/**
 * @param {string} id of an operation. Other ids have no effect.
 * @param {boolean} isOpen
 */
function setOpen(id, isOpen) {
  const details = document.getElementById(id)?.querySelector(':scope > details');
  if (details instanceof HTMLDetailsElement) details.open = isOpen;
}

/** @param {readonly Operation[]} operations */
function filterBy(operations) {
  const input = byId('filter', HTMLInputElement);
  const status = byId('filter-status', HTMLElement);
  const apply = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = operations.filter((operation) => matches(operation, words));
    const shown = new Set(found.map(({ id }) => id));
    for (const { id } of operations) {
      const article = document.getElementById(id);
      if (article !== null) article.hidden = !shown.has(id);
      const link = byId('contents-list', HTMLUListElement).querySelector(`a[href="#${CSS.escape(id)}"]`);
      link?.parentElement?.toggleAttribute('hidden', !shown.has(id));
    }
    status.textContent = words.length === 0 ? '' : `${found.length} of ${operations.length} operations`;
    // The page is shorter now, and would show the last matches.
    if (words.length > 0) document.getElementById(found[0]?.id ?? '')?.scrollIntoView();
  };
  input.addEventListener('input', apply);
  focusWithSlash(input, () => {
    byId('contents', HTMLDetailsElement).open = true;
  });
}

/**
 * @param {Operation} operation
 * @param {readonly string[]} words
 */
function matches({ title, method, path, details, parameters }, words) {
  const names = parameters.map((parameter) => text(parameter, 'name'));
  const all = [title, method, path, text(details, 'description'), ...names].join(' ').toLowerCase();
  return words.every((word) => all.includes(word));
}

/** Marks the last section that starts in the upper third of the window, or above it. */
function markActive() {
  const list = byId('contents-list', HTMLUListElement);
  const links = [...list.querySelectorAll('a')];
  const label = byId('contents-label', HTMLElement);
  const update = () => {
    const above = links.filter((link) => {
      const section = document.getElementById(link.hash.slice(1));
      return section !== null && !section.hidden && section.getBoundingClientRect().top < innerHeight / 3;
    });
    const active = above.at(-1) ?? links[0];
    if (active?.ariaCurrent === 'true') return;
    for (const link of links) link.ariaCurrent = link === active ? 'true' : null;
    label.textContent = active?.lastElementChild?.textContent ?? '';
    if (wide.matches) active?.scrollIntoView({ block: 'nearest' });
  };
  addEventListener('scroll', () => requestAnimationFrame(update), { passive: true });
  update();
}
