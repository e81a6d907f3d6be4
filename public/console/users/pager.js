// @ts-check
import { byId, isEnabled, setEnabled, setHidden } from '../ui/dom.js';
import { formatNumber } from '../ui/format.js';

/** @import { View } from '../ui/view.js' */

/**
 * The buttons that change the page.
 * @param {Readonly<Record<'first' | 'previous' | 'next', () => void>>} steps
 */
export function createPager(steps) {
  const first = button('page-first', steps.first);
  const previous = button('page-prev', steps.previous);
  const next = button('page-next', steps.next);
  const pager = byId('pager', HTMLElement);
  const heading = byId('users-heading', HTMLElement);
  return {
    /**
     * @param {Pick<View, 'page' | 'limit'>} view
     * @param {number} rows on this page
     * @param {boolean} hasNext
     */
    show({ page, limit }, rows, hasNext) {
      const isOnly = page === 1 && !hasNext;
      const rowsBefore = (page - 1) * limit;
      pager.hidden = rows === 0;
      for (const id of ['page-steps', 'count-button']) setHidden(byId(id, HTMLElement), isOnly, heading);
      setEnabled(first, page > 1);
      setEnabled(previous, page > 1);
      setEnabled(next, hasNext);
      const from = formatNumber(rowsBefore + 1);
      const to = formatNumber(rowsBefore + rows);
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
