// @ts-check
import { byId, clone, part } from '../ui/dom.js';
import { announce } from '../ui/messages.js';

/** @import { Changes } from '../api/changes.js' */
/** @import { Connection } from '../api/connection.js' */

const texts = { live: 'Live', reconnecting: 'Reconnecting…', off: 'Not live' };

/**
 * Shows whether the page follows the changes of other clients, and how many new users of its list are not shown yet.
 * @param {Changes} changes
 */
export function createFeedState(changes) {
  const state = byId('feed-state', HTMLElement);
  let added = 0;

  function show() {
    state.dataset['state'] = changes.state;
    state.textContent = texts[changes.state] + (added === 0 ? '' : ` · ${added} new`);
  }

  changes.addEventListener('state', show);
  show();
  return {
    /** Counts a user that another person has added. */
    add() {
      added += 1;
      show();
    },

    /** Resets the count after the list was read. A user that was added during the read may be missed. */
    reset() {
      added = 0;
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
