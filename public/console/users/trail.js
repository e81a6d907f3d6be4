// @ts-check

/** @import { Page } from '../api/record-calls.js' */

/**
 * The visited pages of a list, by the references from the server. A page with a cursor has no `prev` link, so
 * the previous button returns to the page before it in this trail.
 */
export class Trail {
  /** @type {URL[]} */
  #visited;
  /** @type {Page<unknown>['links']} */
  #links = {};

  /** @param {URL} start */
  constructor(start) {
    this.#visited = [start];
  }

  /** @returns {URL} the page to show */
  get here() {
    const here = this.#visited.at(-1);
    if (here === undefined) throw new Error('a trail has a start');
    return here;
  }

  /** The number of rows before this page, if no row was added or removed since they were read. */
  get rowsBefore() {
    const start = this.#visited[0]?.searchParams;
    const pages = Number(start?.get('page') ?? 1) - 1 + this.#visited.length - 1;
    return pages * Number(start?.get('limit') ?? 0);
  }

  /** @returns {URL | undefined} */
  get next() {
    return this.#resolve(this.#links['next']);
  }

  /** @returns {URL | undefined} */
  get previous() {
    return this.#visited.at(-2) ?? this.#resolve(this.#links['prev']);
  }

  /** @returns {URL | undefined} the first page, unless it is the current page */
  get first() {
    return this.previous === undefined ? undefined : this.#resolve(this.#links['first']);
  }

  /** @param {Page<unknown>['links']} links the links of the shown page */
  arrive(links) {
    this.#links = links;
  }

  /** @param {URL} url */
  forward(url) {
    this.#visited.push(url);
  }

  /** @returns {boolean} whether there was an earlier page */
  back() {
    if (this.#visited.length === 1) return false;
    this.#visited.pop();
    return true;
  }

  /** @param {string | undefined} reference */
  #resolve(reference) {
    return reference === undefined ? undefined : new URL(reference, this.here);
  }
}
