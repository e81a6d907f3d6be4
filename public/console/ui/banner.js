// @ts-check
import { byId, clone, part } from './dom.js';
import { announce } from './toasts.js';

/** @import { Connection } from '../api/connection.js' */

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
