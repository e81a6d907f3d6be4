// @ts-check
import { byId, clone, el, part } from '../ui/dom.js';

/** @import { User } from './users-api.js' */

/**
 * The rows of the users' table.
 * @param {(id: number) => string} addressOf where a user's name leads
 * @param {() => void} focusLost takes the focus from a row that is not there any more
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
    if (role !== undefined) part(made, 'role', HTMLElement).append(el('span', { class: 'pill' }, role));
    return made;
  }

  /** @param {number | undefined} id */
  function linkOf(id) {
    return body.querySelector(`tr[data-id="${id}"] a`);
  }

  return {
    /** @param {readonly User[]} users */
    show(users) {
      const focused = document.activeElement?.closest('tr[data-id]')?.getAttribute('data-id');
      body.replaceChildren(...users.map(row));
      if (focused && !this.focus(Number(focused))) focusLost();
    },

    /**
     * Shows a changed user where it stands.
     * @param {User} user
     */
    update(user) {
      body.querySelector(`tr[data-id="${user.id}"]`)?.replaceWith(row(user));
    },

    /** Lets the names lead to where they should lead by now. */
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
      if (link instanceof HTMLElement) link.focus();
      return link !== null;
    },
  };
}
