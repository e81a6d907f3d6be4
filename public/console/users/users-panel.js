// @ts-check
import { apiUrl } from '../api/base.js';
import { byId } from '../ui/dom.js';
import { clearState, showFailure, showState } from '../ui/states.js';
import { listReference } from '../ui/view.js';
import { learnRoles } from './known-roles.js';
import { createPager } from './pager.js';
import { Trail } from './trail.js';

/** @import { Navigation } from '../ui/navigation.js' */
/** @import { Page, User, UsersApi } from './users-api.js' */
/** @import { createUserTable } from './user-table.js' */

/**
 * The list of users, a page at a time.
 * @param {object} parts
 * @param {UsersApi} parts.users
 * @param {Navigation} parts.navigation
 * @param {ReturnType<typeof createUserTable>} parts.table
 * @param {() => void} parts.createUser
 */
export function createUsersPanel({ users, navigation, table, createUser }) {
  const area = byId('table-area', HTMLElement);
  const tableElement = byId('user-table', HTMLTableElement);
  const state = byId('list-state', HTMLElement);
  let reference = '';
  let trail = new Trail(apiUrl('users'));
  let loading = new AbortController();

  const pager = createPager({
    first: () => start(trail.first),
    next: () => {
      if (trail.next !== undefined) trail.forward(trail.next);
      void load();
    },
    previous: () => {
      if (!trail.back()) return start(trail.previous);
      void load();
    },
  });

  /** @param {URL | undefined} url */
  function start(url) {
    if (url !== undefined) trail = new Trail(url);
    void load();
  }

  async function load() {
    loading.abort();
    loading = new AbortController();
    const { signal } = loading;
    area.ariaBusy = 'true';
    try {
      const page = await users.list(trail.here, signal);
      trail.arrive(page.links);
      show(page);
    } catch (error) {
      if (signal.aborted) return;
      tableElement.hidden = true;
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
    if (items.length > 0) return clearState(state);
    const { role } = navigation.view;
    if (trail.rowsBefore > 0) {
      showState(state, 'No more users', 'The rows that were here are gone.', {
        label: 'To the first page',
        act: () => start(trail.first),
      });
    } else if (role !== '') {
      const act = () => navigation.go({ role: '', page: 1 });
      showState(state, `Nobody has the role ${role}`, '', { label: 'Show all users', act });
    } else {
      const act = () => createUser();
      showState(state, 'No users yet', 'Create the first one here, or with POST /users.', {
        label: 'Create a user',
        act,
      });
    }
  }

  byId('refresh-button', HTMLButtonElement).addEventListener('click', load);
  return {
    reload: load,

    /** Lists what the view asks for, unless it is listed already. */
    follow() {
      const wanted = listReference(navigation.view);
      if (wanted === reference) return table.readdress();
      reference = wanted;
      start(apiUrl(reference));
    },
  };
}

/** @typedef {ReturnType<typeof createUsersPanel>} UsersPanel */
