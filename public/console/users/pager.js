// @ts-check
import { byId, isEnabled, setEnabled } from '../ui/dom.js';
import { formatNumber } from '../ui/format.js';

/** @import { Trail } from './trail.js' */

/**
 * The buttons that walk from page to page.
 * @param {Readonly<Record<'first' | 'previous' | 'next', () => void>>} steps
 */
export function createPager(steps) {
  const first = button('page-first', steps.first);
  const previous = button('page-prev', steps.previous);
  const next = button('page-next', steps.next);
  const range = byId('page-range', HTMLElement);
  return {
    /**
     * @param {Trail} trail
     * @param {number} rows on this page
     */
    show(trail, rows) {
      setEnabled(first, trail.first !== undefined);
      setEnabled(previous, trail.previous !== undefined);
      setEnabled(next, trail.next !== undefined);
      const from = trail.rowsBefore + 1;
      range.textContent = rows === 0 ? '' : `Rows ${formatNumber(from)}–${formatNumber(from + rows - 1)}`;
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
