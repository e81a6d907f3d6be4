// @ts-check
import { byId } from '../ui/dom.js';

/** @import { Changes } from '../api/changes.js' */

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
