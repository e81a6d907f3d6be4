// @ts-check
import { byId, clone, part } from './dom.js';
import { say } from './toasts.js';

/** @import { Connection } from '../api/connection.js' */

/**
 * Says that the server is away while it is, and that it is back.
 * @param {Connection} connection
 */
export function createBanner(connection) {
  const region = byId('banner-region', HTMLElement);
  connection.addEventListener('away', () => {
    const banner = clone('banner');
    part(banner, 'retry', HTMLButtonElement).addEventListener('click', () => connection.tryNow());
    region.replaceChildren(banner);
  });
  connection.addEventListener('back', () => {
    region.replaceChildren();
    say('The server is back');
  });
}
