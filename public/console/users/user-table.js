// @ts-check
import { userFields } from '../api/resources.js';
import { byId, clone, moveFocus, part, setText } from '../ui/dom.js';
import { hasDraftsOf } from '../ui/memory.js';

/** @import { User } from '../api/resources.js' */

/**
 * The rows of the table of users.
 * @param {(id: number) => string} addressOf the address of the link on a name
 */
export function createUserTable(addressOf) {
  const body = byId('user-rows', HTMLTableSectionElement);
  /** @type {number | undefined} */
  let openId;

  /** @param {User} user */
  function row(user) {
    const { id } = user;
    const made = clone('user-row');
    made.dataset['id'] = String(id);
    part(made, 'id', HTMLElement).textContent = String(id);
    const link = part(made, 'name', HTMLAnchorElement);
    link.href = addressOf(id);
    if (id === openId) link.ariaCurrent = 'true';
    fill(made, user);
    return made;
  }

  /** @param {number | undefined} id */
  function rowOf(id) {
    const found = body.querySelector(`tr[data-id="${id}"]`);
    return found instanceof HTMLElement ? found : undefined;
  }

  /** @param {number | undefined} id */
  function linkOf(id) {
    return rowOf(id)?.querySelector('a');
  }

  // The whole row opens its user, but text in it can be selected, too.
  body.addEventListener('click', (event) => {
    if (!(event.target instanceof Element)) return;
    // Enter on a name has no detail, and opens the user whatever is selected.
    const isSelecting = event.detail > 0 && getSelection()?.type === 'Range';
    if (isSelecting) return event.preventDefault();
    if (event.target.closest('a') !== null) return;
    const link = event.target.closest('tr')?.querySelector('a');
    // Like a click on the link, which a script cannot imitate in all browsers.
    if (event.ctrlKey || event.metaKey) open(link?.href, '_blank', 'noopener');
    else link?.click();
  });

  body.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.target instanceof Element)) return;
    const row = event.target.closest('tr');
    const rows = new Map([
      ['ArrowDown', row?.nextElementSibling],
      ['ArrowUp', row?.previousElementSibling],
    ]);
    const link = rows.get(event.key)?.querySelector('a');
    if (!link) return;
    event.preventDefault();
    // Otherwise Safari hides the focus after a click on another row.
    link.focus({ focusVisible: true });
  });

  return {
    /** @param {readonly User[]} users */
    show(users) {
      const focused = document.activeElement?.closest('tr[data-id]')?.getAttribute('data-id');
      body.replaceChildren(...users.map(row));
      if (focused && !this.focus(Number(focused))) byId('users-heading', HTMLElement).focus();
    },

    /**
     * Shows a changed user in its present row, so that no rows move.
     * @param {User} user
     * @param {'' | 'Changed' | 'Deleted'} [mark] for a change by another person
     */
    update(user, mark) {
      const shown = rowOf(user.id);
      if (shown !== undefined) fill(shown, user, mark);
    },

    /** @param {number} id */
    has: (id) => rowOf(id) !== undefined,

    /** @param {number} id a user whose drafts, or those of its posts, were added or removed */
    markUnsaved(id) {
      const found = rowOf(id);
      if (found !== undefined) markUnsaved(found, id);
    },

    /** Updates the addresses of the links on the names. */
    readdress() {
      for (const link of body.querySelectorAll('a')) {
        link.href = addressOf(Number(link.closest('tr')?.dataset['id']));
      }
    },

    /** @param {number | undefined} id the user that is open beside the table */
    mark(id) {
      linkOf(openId)?.removeAttribute('aria-current');
      openId = id;
      linkOf(openId)?.setAttribute('aria-current', 'true');
    },

    /**
     * @param {number | undefined} id
     * @returns {boolean} whether the user is on this page
     */
    focus(id) {
      const link = linkOf(id);
      if (link) moveFocus(link);
      return Boolean(link);
    },
  };
}

/**
 * Shows a user in a row. Its elements stay, so that a change does not end a click, a selection or the focus.
 * @param {HTMLElement} row
 * @param {User} user
 */
function fill(row, user, mark = '') {
  for (const [field, text] of Object.entries(userFields(user))) {
    const place = part(row, field, HTMLElement);
    setText(place, text);
    // The column may cut a long text.
    place.title = text;
  }
  part(row, 'changed', HTMLElement).textContent = mark;
  markUnsaved(row, user.id);
}

/**
 * @param {HTMLElement} row
 * @param {number} id
 */
function markUnsaved(row, id) {
  part(row, 'unsaved', HTMLElement).textContent = hasDraftsOf(id) ? 'Unsaved' : '';
}
