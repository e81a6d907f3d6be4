// @ts-check
import { apiUrl } from '../api/connection.js';
import { byId, focusWithSlash, isEnabled, setEnabled } from '../ui/dom.js';
import { announce, explain, formatNumber } from '../ui/messages.js';
import { filterOf, filterText } from '../ui/navigation.js';

/** @import { UsersApi } from '../api/resources.js' */
/** @import { Navigation } from '../ui/navigation.js' */

/**
 * The controls for the filter, the order, the page size and the count of the list. Users are counted only on
 * request, because counting gets slower with more users.
 * @param {Navigation} navigation
 * @param {UsersApi} users
 */
export function createListControls(navigation, users) {
  // The API rejects control characters, which pasted text may have.
  const name = createNameSearch(() => navigation.list({ name: name.value.replaceAll(/\p{Cc}/gu, '') }));
  const role = byId('role-filter', HTMLInputElement);
  const clear = byId('clear-filter', HTMLButtonElement);
  const size = byId('page-size', HTMLSelectElement);
  const total = byId('total', HTMLElement);
  const count = byId('count-button', HTMLButtonElement);
  const headings = createSortHeadings(byId('user-table', HTMLTableElement), (sort) =>
    navigation.list({ sort }),
  );
  let shown = navigation.view;
  let counting = new AbortController();
  let marks = 0;
  name.value = shown.name;
  role.value = shown.role;

  wireFilterBox(role, () => navigation.list({ role: role.value }));
  clear.addEventListener('click', () => {
    // Also clear typed text that still waits for its pause.
    name.value = '';
    role.value = '';
    navigation.list({ name: '', role: '' });
    name.focus();
  });
  size.addEventListener('change', () => navigation.list({ limit: Number(size.value) }));

  count.addEventListener('click', async () => {
    if (!isEnabled(count)) return;
    setEnabled(count, false);
    const { view } = navigation;
    const parameters = filterOf(view);
    parameters.set('limit', '1');
    counting = new AbortController();
    const { signal } = counting;
    const marksBefore = marks;
    try {
      const number = await users.count(apiUrl(`users?${parameters}`), signal);
      total.textContent = `${formatNumber(number)} ${filterText(view) || 'in all'}`;
      // A change during the request may be missing in its count.
      if (marks === marksBefore) delete total.dataset['old'];
    } catch (error) {
      if (signal.aborted) return;
      announce(`The users could not be counted: ${explain(error)}`);
    }
    setEnabled(count, true);
  });

  /** Removes the outdated count, and stops one that is running. */
  function forgetTotal() {
    counting.abort();
    setEnabled(count, true);
    total.textContent = '';
  }

  return {
    /** Shows the values of the view. */
    follow() {
      const { view } = navigation;
      headings.show(view.sort);
      size.value = String(view.limit);
      clear.hidden = filterOf(view).size === 0;
      // A total is only valid for one filter at one moment.
      if (`${filterOf(view)}` !== `${filterOf(shown)}`) forgetTotal();
      // Keep typed text that is not applied yet.
      if (view.name !== shown.name) name.value = view.name;
      if (view.role !== shown.role || role.value === '') role.value = view.role;
      shown = view;
    },

    forgetTotal,

    /**
     * Marks the count after another person's change of a user.
     * @param {string | undefined} what happened
     */
    markTotal(what) {
      // Without a filter, a changed user is still counted.
      if (what === 'updated' && filterOf(shown).size === 0) return;
      marks += 1;
      total.dataset['old'] = '';
    },

    /** Removes the outdated count, but does not stop one that is running: its request is sent again. */
    clearTotal() {
      total.textContent = '';
    },
  };
}

/**
 * The column headings that sort. The first click sorts ascending, and the next one descending.
 * @param {HTMLTableElement} table
 * @param {(sort: string) => void} choose
 */
function createSortHeadings(table, choose) {
  let current = '';
  const headings = [...table.querySelectorAll('th')].filter((heading) => 'sort' in heading.dataset);
  for (const heading of headings) {
    const field = heading.dataset['sort'] ?? '';
    heading
      .querySelector('button')
      ?.addEventListener('click', () => choose(current === field ? `-${field}` : field));
  }
  return {
    /** @param {string} sort */
    show(sort) {
      current = sort;
      for (const heading of headings) {
        const field = heading.dataset['sort'] ?? '';
        if (sort === field) heading.ariaSort = 'ascending';
        else if (sort === `-${field}`) heading.ariaSort = 'descending';
        else heading.ariaSort = null;
      }
    },
  };
}

/**
 * The box that searches for names. Escape clears it, the key `/` focuses it, and Down moves to the first row.
 * @param {() => void} search
 * @returns {HTMLInputElement}
 */
function createNameSearch(search) {
  const input = byId('name-filter', HTMLInputElement);
  wireFilterBox(input, search);
  input.addEventListener('keydown', (event) => {
    if (event.isComposing) return;
    // With another key, Down selects text or moves in it.
    const isAlone = !event.shiftKey && !event.ctrlKey && !event.metaKey && !event.altKey;
    if (event.key === 'ArrowDown' && isAlone) byId('user-rows', HTMLElement).querySelector('a')?.focus();
    if (event.key !== 'Escape' || input.value === '') return;
    event.preventDefault();
    input.value = '';
    input.dispatchEvent(new Event('input'));
  });
  focusWithSlash(input);
  return input;
}

const typingPauseMs = 250;

/**
 * Applies a filter box after a pause in typing, and at once when it is cleared or on Enter. Invalid text has
 * no effect, and the browser shows the reason.
 * @param {HTMLInputElement} input
 * @param {() => void} apply
 */
function wireFilterBox(input, apply) {
  let timer = 0;

  function applyNow() {
    clearTimeout(timer);
    // Reporting moves the focus to the box. Typing may have left it already.
    if (input.checkValidity()) apply();
    else if (document.activeElement === input) input.reportValidity();
  }

  input.addEventListener('input', () => {
    clearTimeout(timer);
    if (input.value === '') applyNow();
    else timer = setTimeout(applyNow, typingPauseMs);
  });
  input.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && !event.isComposing) applyNow();
  });
}
