// @ts-check
import { byId, isEnabled, setEnabled } from '../ui/dom.js';
import { formatNumber } from '../ui/format.js';

/** @import { Trail } from './trail.js' */

/**
 * The buttons that change the page.
 * @param {Readonly<Record<'first' | 'previous' | 'next', () => void>>} steps
 */
export function createPager(steps) {
  const first = button('page-first', steps.first);
  const previous = button('page-prev', steps.previous);
  const next = button('page-next', steps.next);
  const pager = byId('pager', HTMLElement);
  return {
    /**
     * @param {Trail} trail
     * @param {number} rows on this page
     */
    show(trail, rows) {
      const isOnly = trail.previous === undefined && trail.next === undefined;
      pager.hidden = rows === 0;
      byId('page-steps', HTMLElement).hidden = isOnly;
      byId('count-button', HTMLButtonElement).hidden = isOnly;
      setEnabled(first, trail.first !== undefined);
      setEnabled(previous, trail.previous !== undefined);
      setEnabled(next, trail.next !== undefined);
      const from = formatNumber(trail.rowsBefore + 1);
      const to = formatNumber(trail.rowsBefore + rows);
      byId('page-range', HTMLElement).textContent =
        `${from === to ? `Row ${to}` : `Rows ${from}–${to}`}${isOnly ? ` of ${to}` : ''}`;
    },

    hide() {
      pager.hidden = true;
    },
  };
}

/**
 * @param {string} id
 * @param {() => void} step
 */
function button(id, step) {
  const found = byId(id, HTMLButtonElement);
  found.addEventListener('click', () => {
    if (isEnabled(found)) step();
  });
  return found;
}
