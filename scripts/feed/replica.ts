import type { Deliveries, Delivery } from './deliveries.ts';

/** The parts of a change in the feed that are needed here. */
interface Event {
  readonly type: string;
  readonly version: number;
  readonly data: Readonly<Record<string, unknown>> & { readonly id: number };
}

/** The state of a record after a change. */
interface Last {
  readonly record: string;
  readonly version: number;
  /** The text of `rowText`, or `undefined` if the record was deleted. */
  readonly row: string | undefined;
}

/** A change that all followers share. */
interface Change {
  /** The block of the stream, which must be the same for all. */
  readonly text: string;
  readonly position: number;
  readonly last: Last;
  readonly delivery: Delivery;
  /** The number of followers that have not received it yet. */
  missing: number;
}

/** Identifies a change by the record and its version, or its deletion. */
export function nameOf(kind: string, id: number, version: number | 'deleted'): string {
  return `${kind} ${id} ${version}`;
}

/** The changes that only some followers have received. Each is parsed once, for the first follower. */
export class Changes {
  readonly #followers: number;
  readonly #deliveries: Deliveries;
  readonly #changes = new Map<number, Change>();

  constructor(followers: number, deliveries: Deliveries) {
    this.#followers = followers;
    this.#deliveries = deliveries;
  }

  /** The number of changes that are missing at a follower although another follower has them. */
  get missing(): number {
    return [...this.#changes.values()].reduce((sum, { missing }) => sum + missing, 0);
  }

  /** The change in a block that starts with its position. */
  receive(position: number, text: string): Change {
    const change = this.#changes.get(position) ?? this.#parse(position, text);
    change.missing -= 1;
    if (change.missing === 0) this.#changes.delete(position);
    return change;
  }

  #parse(position: number, text: string): Change {
    const { kind, id, version, row } = parse(text);
    const delivery = this.#deliveries.find(nameOf(kind, id, row === undefined ? 'deleted' : version));
    const last = { record: `${kind} ${id}`, version, row };
    const change = { text, position, last, delivery, missing: this.#followers };
    this.#changes.set(position, change);
    return change;
  }
}

function parse(text: string) {
  const { type, version, data }: Event = JSON.parse(text.slice(text.indexOf('\ndata: ') + 7));
  const [kind = '', verb] = type.split('.');
  return { kind, id: data.id, version, row: verb === 'deleted' ? undefined : rowText({ ...data, version }) };
}

/** The data of a follower: the last change of each user and post. */
export class Replica {
  readonly rows = new Map<string, Last>();
  readonly faults = { missing: 0, doubled: 0, outOfOrder: 0, different: 0 };
  position = 0;
  changes = 0;

  /** Adds a change. Returns whether it is new, and not a repetition or out of order. */
  isNext(position: number, text: string): boolean {
    if (position > this.position) return true;
    const { kind, id, version } = parse(text);
    const known = this.rows.get(`${kind} ${id}`)?.version ?? 0;
    this.faults[version <= known ? 'doubled' : 'outOfOrder'] += 1;
    return false;
  }

  apply({ position, last, text: first }: Change, text: string): void {
    const { record, version, row } = last;
    this.position = position;
    this.changes += 1;
    if (text !== first) this.faults.different += 1;
    const known = this.rows.get(record)?.version ?? 0;
    const expected = row === undefined ? known : known + 1;
    if (version > expected) this.faults.missing += 1;
    if (version < expected) this.faults.outOfOrder += 1;
    if (row === undefined) this.rows.delete(record);
    else this.rows.set(record, last);
  }

  /** The number of records that differ from those of a store. */
  differences(stored: ReadonlyMap<string, string>): number {
    const names = new Set([...this.rows.keys(), ...stored.keys()]);
    return [...names].filter((name) => this.rows.get(name)?.row !== stored.get(name)).length;
  }
}

export function rowText(row: Readonly<Record<string, unknown>>): string {
  return JSON.stringify(Object.entries(row).sort(([a], [b]) => (a < b ? -1 : 1)));
}
