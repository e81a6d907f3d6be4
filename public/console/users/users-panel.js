// @ts-check
import { apiUrl } from '../api/base.js';
import { byId } from '../ui/dom.js';
import { clearState, showFailure, showState } from '../ui/states.js';
import { nameText } from '../ui/toasts.js';
import { filterText, listReference } from '../ui/view.js';
import { learnRoles } from './known-roles.js';
import { createPager } from './pager.js';
import { Trail } from './trail.js';

/** @import { Navigation } from '../ui/navigation.js' */
/** @import { Page } from '../api/record-calls.js' */
/** @import { User, UsersApi } from './users-api.js' */
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
  let reference = '';
  let trail = new Trail(apiUrl('users'));
  let loading = new AbortController();
  /** @type {User | undefined} */
  let created;

  const pager = createPager({
    first: () => start(trail.first),
    next: () => {
      if (trail.next !== undefined) trail.forward(trail.next);
      void step();
    },
    previous: () => {
      if (!trail.back()) return start(trail.previous);
      void step();
    },
  });

  /** @param {URL | undefined} url */
  function start(url) {
    if (url !== undefined) trail = new Trail(url);
    void step();
  }

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
    area.ariaBusy = 'true';
    try {
      const page = await users.list(trail.here, signal);
      listed(page.links['monitor']);
      trail.arrive(page.links);
      show(page);
    } catch (error) {
      if (signal.aborted) return;
      tableElement.hidden = true;
      pager.hide();
      showFailure(state, 'The users could not be listed', error, load);
    }
    if (!signal.aborted) area.ariaBusy = 'false';
  }

  /** @param {Page<User>} page */
  function show({ items }) {
    learnRoles(items);
    table.show(items);
    tableElement.hidden = items.length === 0;
    pager.show(trail, items.length);
    showWhere(items);
    const filter = filterText(navigation.view);
    const isEmpty = items.length === 0 && trail.rowsBefore === 0 && filter === '';
    work.toggleAttribute('data-empty', isEmpty);
    if (items.length > 0) return clearState(state);
    if (trail.rowsBefore > 0) {
      showState(state, 'No more users', 'The rows that were here have been deleted.', {
        label: 'To the first page',
        act: () => start(trail.first),
      });
    } else if (filter !== '') {
      const act = () => navigation.go({ name: '', role: '', page: 1 });
      const hint = navigation.view.name === '' ? '' : 'Capital and small letters differ.';
      showState(state, `No users ${filter}`, hint, { label: 'Show all users', act });
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
    note.hidden = created === undefined || items.some(({ id }) => id === created?.id);
    if (created === undefined || note.hidden) return;
    const text = byId('list-note-text', HTMLElement);
    text.replaceChildren(nameText(created.name), ` is user ${created.id}. It is not on this page.`);
  }

  byId('list-note-show', HTMLButtonElement).addEventListener('click', () => {
    navigation.go({ name: '', role: '', sort: '-id', page: 1 });
    byId('users-heading', HTMLElement).focus();
  });
  byId('refresh-button', HTMLButtonElement).addEventListener('click', load);
  return {
    reload: load,

    /**
     * Reads the same page again, and announces the new user.
     * @param {User} user
     */
    async show(user) {
      created = user;
      await load();
    },

    /** Lists the users of the view, unless they are already listed. */
    follow() {
      const wanted = listReference(navigation.view);
      if (wanted === reference) return table.readdress();
      reference = wanted;
      start(apiUrl(reference));
    },
  };
}

/** @typedef {ReturnType<typeof createUsersPanel>} UsersPanel */
