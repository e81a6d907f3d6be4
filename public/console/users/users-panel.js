// @ts-check
import { hasStatus } from '../api/client.js';
import { apiUrl } from '../api/connection.js';
import { byId, el, isEnabled, setEnabled, setHidden } from '../ui/dom.js';
import { announce, clearState, formatNumber, nameText, showFailure, showState } from '../ui/messages.js';
import { filterText, isBefore, isListed, listReference } from '../ui/navigation.js';

/** @import { Page } from '../api/record-calls.js' */
/** @import { User, UsersApi } from '../api/resources.js' */
/** @import { Navigation, View } from '../ui/navigation.js' */
/** @import { createUserTable } from './user-table.js' */

/**
 * The list of users, one page at a time.
 * @param {object} parts
 * @param {UsersApi} parts.users
 * @param {Navigation} parts.navigation
 * @param {ReturnType<typeof createUserTable>} parts.table
 * @param {() => void} parts.createUser
 * @param {(monitor: string | undefined) => void} parts.listed after a page was read
 */
export function createUsersPanel({ users, navigation, table, createUser, listed }) {
  const work = byId('work', HTMLElement);
  const area = byId('table-area', HTMLElement);
  const tableElement = byId('user-table', HTMLTableElement);
  const state = byId('list-state', HTMLElement);
  const heading = byId('users-heading', HTMLElement);
  let here = apiUrl('users');
  /** @type {URL | undefined} */
  let next;
  /** @type {readonly User[]} */
  let shown = [];
  let loading = new AbortController();
  /** @type {User | undefined} */
  let created;
  /**
   * The changes during a read, whose response may be older.
   * @type {Parameters<typeof table.update>[]}
   */
  let changes = [];

  const toFirst = () => navigation.go({ page: 1, visited: [] });
  const pager = createPager({
    first: toFirst,
    next() {
      // The next page is unknown while this one is read.
      if (next === undefined) return;
      const { page, visited } = navigation.view;
      navigation.go({ page: page + 1, visited: [...visited, next.href] });
    },
    previous() {
      const { page, visited } = navigation.view;
      navigation.go({ page: Math.max(1, page - 1), visited: visited.slice(0, -1) });
    },
  });

  /** Scrolls to the top of a new page. */
  async function step() {
    created = undefined;
    await load();
    const panel = byId('users', HTMLElement);
    if (panel.getBoundingClientRect().top < 0) panel.scrollIntoView({ block: 'start' });
  }

  async function load() {
    loading.abort();
    loading = new AbortController();
    const { signal } = loading;
    changes = [];
    area.ariaBusy = 'true';
    try {
      const page = await users.list(here, signal);
      listed(page.links['monitor']);
      next = page.links['next'] === undefined ? undefined : new URL(page.links['next'], here);
      show(page);
    } catch (error) {
      if (signal.aborted) return;
      if (hasStatus(error, 400) && navigation.view.page > 1) {
        announce('That page is no longer available. This is the first page');
        return navigation.list({});
      }
      tableElement.hidden = true;
      pager.hide();
      showFailure(state, 'The users could not be listed', error, load);
    }
    if (!signal.aborted) area.ariaBusy = 'false';
  }

  /** @param {Page<User>} page */
  function show({ items }) {
    shown = items;
    learnRoles(items);
    table.show(items);
    for (const change of changes) table.update(...change);
    tableElement.hidden = items.length === 0;
    pager.show(navigation.view, items.length, next !== undefined);
    showWhere(items);
    const { page } = navigation.view;
    const filter = filterText(navigation.view);
    const isEmpty = items.length === 0 && page === 1 && filter === '';
    work.toggleAttribute('data-empty', isEmpty);
    if (items.length > 0) return clearState(state);
    if (page > 1) {
      showState(state, 'No more users', 'The rows that were here have been deleted.', {
        label: 'To the first page',
        act: toFirst,
      });
    } else if (filter !== '') {
      const { name } = navigation.view;
      const isId = /^[1-9][0-9]{0,9}$/.test(name);
      const hint = name === '' || isId ? '' : 'Capital and small letters differ.';
      const all = { label: 'Show all users', act: () => navigation.list({ name: '', role: '' }) };
      const one = { label: `Open user ${name}`, act: () => navigation.go({ userId: Number(name) }) };
      showState(state, `No users ${filter}`, hint, isId ? one : all);
    } else {
      showState(state, 'No users yet', 'Create the first one here, or send POST /users.', {
        label: 'Create a user',
        act: createUser,
      });
    }
  }

  /**
   * Announces a new user that this page does not show.
   * @param {readonly User[]} items
   */
  function showWhere(items) {
    const note = byId('list-note', HTMLElement);
    const isShown = items.some(({ id }) => id === created?.id);
    setHidden(note, created === undefined || isShown, heading);
    if (created === undefined || isShown) return;
    const text = byId('list-note-text', HTMLElement);
    text.replaceChildren(nameText(created.name), ` is user ${created.id}. It is not on this page.`);
  }

  byId('list-note-show', HTMLButtonElement).addEventListener('click', () => {
    navigation.list({ name: '', role: '', sort: '-id' });
    heading.focus();
  });
  return {
    reload: load,

    /**
     * Whether this page lists a new user when it is read again.
     * @param {User} user
     */
    willShow(user) {
      const { view } = navigation;
      if (!isListed(view, user) || table.has(user.id)) return false;
      const [first] = shown;
      const last = shown.at(-1);
      const isOnEarlierPage = view.page > 1 && (first === undefined || isBefore(view, user, first));
      const hasRoom = next === undefined && shown.length < view.limit;
      return !isOnEarlierPage && (hasRoom || (last !== undefined && isBefore(view, user, last)));
    },

    /**
     * Shows a changed user in its present row.
     * @param {Parameters<typeof table.update>} change
     */
    update(...change) {
      if (area.ariaBusy === 'true') changes.push(change);
      table.update(...change);
      const [{ id }, mark] = change;
      if (mark !== 'Deleted' || id !== created?.id) return;
      created = undefined;
      showWhere(shown);
    },

    /**
     * Reads the same page again, and announces a new user that is not on it.
     * @param {User | undefined} user
     */
    async show(user) {
      created = user;
      await load();
    },

    /** Lists the users of the view, unless they are already listed. */
    follow() {
      const { view } = navigation;
      const wanted = apiUrl(view.visited.at(-1) ?? listReference(view));
      if (wanted.href === here.href) return table.readdress();
      here = wanted;
      next = undefined;
      void step();
    },
  };
}

/**
 * The buttons that change the page.
 * @param {Readonly<Record<'first' | 'previous' | 'next', () => void>>} steps
 */
function createPager(steps) {
  const first = pagerButton('page-first', steps.first);
  const previous = pagerButton('page-prev', steps.previous);
  const next = pagerButton('page-next', steps.next);
  const pager = byId('pager', HTMLElement);
  const heading = byId('users-heading', HTMLElement);
  return {
    /**
     * @param {Pick<View, 'page' | 'limit'>} view
     * @param {number} rows on this page
     * @param {boolean} hasNext
     */
    show({ page, limit }, rows, hasNext) {
      const isOnly = page === 1 && !hasNext;
      const rowsBefore = (page - 1) * limit;
      pager.hidden = rows === 0;
      for (const id of ['page-steps', 'count-button']) setHidden(byId(id, HTMLElement), isOnly, heading);
      setEnabled(first, page > 1);
      setEnabled(previous, page > 1);
      setEnabled(next, hasNext);
      const from = formatNumber(rowsBefore + 1);
      const to = formatNumber(rowsBefore + rows);
      byId('page-range', HTMLElement).textContent =
        `${from === to ? `Row ${to}` : `Rows ${from}–${to}`}${isOnly ? ` of ${to}` : ''}`;
    },

    hide() {
      pager.hidden = true;
    },
  };
}

/**
 * @param {string} id
 * @param {() => void} step
 */
function pagerButton(id, step) {
  const found = byId(id, HTMLButtonElement);
  found.addEventListener('click', () => {
    if (isEnabled(found)) step();
  });
  return found;
}

// The API has no list of roles. Browsers get slow with long lists of suggestions.
const maxRoles = 200;
/** @type {Set<string>} */
const knownRoles = new Set();

/**
 * Suggests the roles seen so far in every role field.
 * @param {readonly User[]} users
 */
function learnRoles(users) {
  const before = knownRoles.size;
  for (const { role } of users) {
    if (role !== undefined && knownRoles.size < maxRoles) knownRoles.add(role);
  }
  if (knownRoles.size === before) return;
  const options = [...knownRoles].sort().map((value) => el('option', { value }));
  byId('known-roles', HTMLDataListElement).replaceChildren(...options);
}
