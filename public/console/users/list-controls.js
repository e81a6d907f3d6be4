// @ts-check
import { apiUrl } from '../api/base.js';
import { byId } from '../ui/dom.js';
import { formatNumber } from '../ui/format.js';
import { say } from '../ui/toasts.js';
import { createSortHeadings } from './sort-headings.js';

/** @import { Navigation } from '../ui/navigation.js' */
/** @import { UsersApi } from './users-api.js' */

/**
 * What chooses the list: the filter, the order, the page size; and the count of it, on request only,
 * because counting is the one thing that costs more the more users there are.
 * @param {Navigation} navigation
 * @param {UsersApi} users
 */
export function createListControls(navigation, users) {
  const form = byId('filter-form', HTMLFormElement);
  const role = byId('role-filter', HTMLInputElement);
  const clear = byId('clear-filter', HTMLButtonElement);
  const size = byId('page-size', HTMLSelectElement);
  const total = byId('total', HTMLElement);
  const headings = createSortHeadings(byId('user-table', HTMLTableElement), (sort) =>
    navigation.go({ sort, page: 1 }),
  );
  let shownRole = '';

  form.addEventListener('submit', (event) => {
    event.preventDefault();
    navigation.go({ role: role.value, page: 1 });
  });
  clear.addEventListener('click', () => {
    navigation.go({ role: '', page: 1 });
    role.focus();
  });
  size.addEventListener('change', () => navigation.go({ limit: Number(size.value), page: 1 }));

  byId('count-button', HTMLButtonElement).addEventListener('click', async () => {
    const counted = navigation.view.role;
    try {
      const query = counted === '' ? '' : `&role=${counted}`;
      const number = await users.count(apiUrl(`users?limit=1${query}`));
      // Another filter may have been chosen meanwhile.
      if (counted === navigation.view.role) showTotal(number, counted);
    } catch (error) {
      say(`The users could not be counted: ${error instanceof Error ? error.message : error}`);
    }
  });

  /**
   * @param {number} number
   * @param {string} counted
   */
  function showTotal(number, counted) {
    total.textContent = `${formatNumber(number)} ${counted === '' ? 'in all' : `with the role ${counted}`}`;
  }

  return {
    /** Shows what the view asks for. */
    follow() {
      const { view } = navigation;
      headings.show(view.sort);
      size.value = String(view.limit);
      clear.hidden = view.role === '';
      // A total is that of one filter at one moment.
      if (view.role !== shownRole) total.textContent = '';
      if (view.role !== shownRole || role.value === '') role.value = view.role;
      shownRole = view.role;
    },

    /** The number has changed. */
    forgetTotal() {
      total.textContent = '';
    },
  };
}
