// @ts-check
import { byId, clone, part } from '../ui/dom.js';
import { announce } from '../ui/messages.js';

/** @import { Changes } from '../api/changes.js' */
/** @import { Connection } from '../api/connection.js' */

const texts = { live: 'Live', reconnecting: 'Reconnecting…', off: 'Not live' };

/**
 * Shows whether the page follows the changes of other clients, and how many new users its list
 * shows when it is read again.
 * @param {Changes} changes
 */
export function createFeedState(changes) {
  const state = byId('feed-state', HTMLElement);
  /** @type {Set<number>} */
  const added = new Set();

  function show() {
    state.dataset['state'] = changes.state;
    state.textContent = texts[changes.state] + (added.size === 0 ? '' : ` · ${added.size} new`);
  }

  changes.addEventListener('state', show);
  show();
  return {
    /**
     * Counts a user that another person has added.
     * @param {number} id
     */
    add(id) {
      added.add(id);
      show();
    },

    /**
     * No longer counts a user that was deleted.
     * @param {number} id
     */
    remove(id) {
      added.delete(id);
      show();
    },

    /** Resets the count after the list was read. A user that was added during the read may be missed. */
    reset() {
      added.clear();
      show();
    },
  };
}

/**
 * Reports that the service does not respond, and that it responds again.
 * @param {Connection} connection
 * @param {() => void} focusLost moves the focus away from the removed button
 */
export function createBanner(connection, focusLost) {
  const region = byId('banner-region', HTMLElement);
  connection.addEventListener('away', () => {
    const banner = clone('banner');
    part(banner, 'retry', HTMLButtonElement).addEventListener('click', () => connection.tryNow());
    region.replaceChildren(banner);
  });
  connection.addEventListener('back', () => {
    const hadFocus = region.contains(document.activeElement);
    region.replaceChildren();
    if (hadFocus) focusLost();
    announce('The service is responding again');
  });
}
