// @ts-check
import { byId, clone, el, moveFocus, part } from '../ui/dom.js';
import { readDraft } from '../ui/drafts.js';

/** @import { User } from './users-api.js' */

/**
 * The rows of the table of users.
 * @param {(id: number) => string} addressOf the address of the link on a name
 * @param {() => void} focusLost moves the focus away from a removed row
 */
export function createUserTable(addressOf, focusLost) {
  const body = byId('user-rows', HTMLTableSectionElement);
  /** @type {number | undefined} */
  let openId;

  /** @param {User} user */
  function row({ id, name, role }) {
    const made = clone('user-row');
    made.dataset['id'] = String(id);
    part(made, 'id', HTMLElement).textContent = String(id);
    const link = part(made, 'name', HTMLAnchorElement);
    link.textContent = name;
    link.title = name;
    link.href = addressOf(id);
    if (id === openId) link.ariaCurrent = 'true';
    link.draggable = false;
    markUnsaved(made, id);
    if (role !== undefined) part(made, 'role', HTMLElement).append(el('span', { class: 'pill' }, role));
    return made;
  }

  /** @param {number | undefined} id */
  function linkOf(id) {
    return body.querySelector(`tr[data-id="${id}"] a`);
  }

  /**
   * Replaces the row of a user, if it is shown. The focus stays on the name.
   * @param {User} user
   * @param {HTMLElement} made
   */
  function replace({ id }, made) {
    const shown = body.querySelector(`tr[data-id="${id}"]`);
    const hadFocus = shown?.contains(document.activeElement);
    shown?.replaceWith(made);
    const link = linkOf(id);
    if (hadFocus && link instanceof HTMLElement) link.focus();
  }

  // The whole row opens its user, but text in it can be selected, too.
  body.addEventListener('click', (event) => {
    if (!(event.target instanceof Element)) return;
    const isSelecting = getSelection()?.type === 'Range';
    const isLink = event.target.closest('a') !== null;
    if (isSelecting) event.preventDefault();
    else if (!isLink) event.target.closest('tr')?.querySelector('a')?.click();
  });

  return {
    /** @param {readonly User[]} users */
    show(users) {
      const focused = document.activeElement?.closest('tr[data-id]')?.getAttribute('data-id');
      body.replaceChildren(...users.map(row));
      if (focused && !this.focus(Number(focused))) focusLost();
    },

    /**
     * Shows a changed user in its present row.
     * @param {User} user
     */
    update(user) {
      replace(user, row(user));
    },

    /**
     * Shows a change of a user by another person in its present row, so that no rows move.
     * @param {User} user
     * @param {'Changed' | 'Deleted'} what
     */
    change(user, what) {
      const made = row(user);
      part(made, 'changed', HTMLElement).textContent = what;
      replace(user, made);
    },

    /** @param {number} id a user whose draft was added or removed */
    markUnsaved(id) {
      const found = body.querySelector(`tr[data-id="${id}"]`);
      if (found instanceof HTMLElement) markUnsaved(found, id);
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
      if (link instanceof HTMLElement) moveFocus(link);
      return link !== null;
    },
  };
}

/**
 * @param {HTMLElement} row
 * @param {number} id
 */
function markUnsaved(row, id) {
  part(row, 'unsaved', HTMLElement).textContent = readDraft(`user.${id}`) === undefined ? '' : 'Unsaved';
}
