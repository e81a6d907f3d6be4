// @ts-check
import { byId, clone, part, setText } from '../ui/dom.js';
import { local } from '../ui/memory.js';
import { copyText, formatMs } from '../ui/messages.js';
import { curlLine, grpcurlLine } from './curl.js';

/** @import { Call } from '../api/client.js' */
/** @import { SentRequest } from './curl.js' */

/**
 * A request with the words for its outcome, and with its path, duration and id.
 * @typedef {SentRequest & { status: string, facts: string[] }} Entry
 */

const keptEntries = 25;

/**
 * The latest requests, newest first. Polls of the panel are not included, because no user action caused them.
 * Event: `change`.
 */
export class RequestLog extends EventTarget {
  #isKeyed;
  /** @type {Entry[]} */
  #entries = [];

  /** @param {() => boolean} isKeyed whether requests carry an API key */
  constructor(isKeyed) {
    super();
    this.#isKeyed = isKeyed;
  }

  /** @returns {readonly Entry[]} */
  get entries() {
    return this.#entries;
  }

  /** @param {Call} call */
  start({ method, url, headers = {}, body }) {
    const startedAt = performance.now();
    /** @type {Entry} */
    const entry = {
      ...{ method, url: url.href, headers, body },
      ...{ keyed: this.#isKeyed(), status: '…', facts: [`${method} ${url.pathname}`] },
    };
    this.#entries = [entry, ...this.#entries].slice(0, keptEntries);
    this.#changed();
    return {
      /**
       * @param {number} status
       * @param {string | undefined} requestId
       */
      end: (status, requestId) => {
        // A key may have been entered in the meantime.
        entry.keyed = this.#isKeyed();
        entry.status = status === 0 ? 'no response' : String(status);
        entry.facts.push(formatMs(performance.now() - startedAt), ...(requestId ? [requestId] : []));
        this.#changed();
      },
      cancel: () => {
        entry.status = 'cancelled';
        this.#changed();
      },
    };
  }

  #changed() {
    this.dispatchEvent(new Event('change'));
  }
}

const defaultGrpcPort = 50051;

/**
 * The bar at the bottom of the page with the last request as a line to copy, and the list above it.
 * @param {RequestLog} log
 */
export function createRequestDock(log) {
  const bar = byId('dock-line', HTMLElement);
  const status = byId('dock-status', HTMLElement);
  const list = byId('dock-list', HTMLElement);
  const items = byId('request-list', HTMLElement);
  const toggle = byId('dock-toggle', HTMLButtonElement);
  const port = byId('grpc-port', HTMLInputElement);
  port.value = local.read('grpc-port') ?? String(defaultGrpcPort);
  /** @type {WeakMap<Entry, HTMLElement>} */
  const itemOf = new WeakMap();

  function render() {
    const [last] = log.entries;
    if (last === undefined) return;
    showStatus(status, last);
    bar.textContent = curlLine(last);
    if (!list.hidden) renderItems();
  }

  /** Adds new items and removes the oldest ones. The others stay, so that they keep the focus and selected text. */
  function renderItems() {
    for (const entry of log.entries.toReversed()) {
      let item = itemOf.get(entry);
      if (item === undefined) {
        item = requestItem();
        itemOf.set(entry, item);
        items.prepend(item);
      }
      fill(item, entry, Number(port.value));
    }
    for (const item of [...items.children].slice(log.entries.length)) item.remove();
  }

  toggle.addEventListener('click', () => {
    list.hidden = !list.hidden;
    toggle.ariaExpanded = String(!list.hidden);
    render();
    // On a phone the list is below the visible part of the page.
    if (!list.hidden) list.scrollIntoView({ block: 'nearest' });
  });
  byId('dock', HTMLElement).addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || event.isComposing || list.hidden) return;
    toggle.click();
    toggle.focus();
  });
  port.addEventListener('change', () => {
    if (!port.checkValidity() || port.value === '') port.value = String(defaultGrpcPort);
    local.write('grpc-port', port.value);
    render();
  });
  byId('dock-copy', HTMLButtonElement).addEventListener('click', () => copyText(bar.textContent ?? ''));
  log.addEventListener('change', render);
}

function requestItem() {
  const item = clone('request-item');
  for (const [button, line] of Object.entries({ copy: 'curl', 'copy-grpc': 'grpcurl' })) {
    const copy = () => copyText(part(item, line, HTMLElement).textContent ?? '');
    part(item, button, HTMLButtonElement).addEventListener('click', copy);
  }
  return item;
}

/**
 * @param {HTMLElement} item
 * @param {Entry} entry
 * @param {number} grpcPort
 */
function fill(item, entry, grpcPort) {
  showStatus(part(item, 'status', HTMLElement), entry);
  setText(part(item, 'facts', HTMLElement), entry.facts.join(' · '));
  setText(part(item, 'curl', HTMLElement), curlLine(entry));
  const grpc = grpcurlLine(entry, grpcPort);
  part(item, 'grpc', HTMLElement).hidden = grpc === undefined;
  setText(part(item, 'grpcurl', HTMLElement), grpc ?? '');
}

/**
 * @param {HTMLElement} place
 * @param {Entry} entry
 */
function showStatus(place, { status }) {
  place.textContent = status;
  place.dataset['class'] = status.charAt(0);
}
