import type { Deliveries, Delivery } from './deliveries.ts';

/** A change as the service sends it, in the parts that are needed here. */
interface Event {
  readonly type: string;
  readonly version: number;
  readonly data: Readonly<Record<string, unknown>> & { readonly id: number };
}

/** What a change makes of a record. */
interface Last {
  readonly record: string;
  readonly version: number;
  /** As `rowText` has it; `undefined` when it was deleted. */
  readonly row: string | undefined;
}

/** A change, as all followers have it. */
interface Change {
  /** The block of the stream, which must be the same for all. */
  readonly text: string;
  readonly position: number;
  readonly last: Last;
  readonly delivery: Delivery;
  /** How many followers do not have it yet. */
  missing: number;
}

/** Which version of which record a change is about, or that it was deleted. */
export function nameOf(kind: string, id: number, version: number | 'deleted'): string {
  return `${kind} ${id} ${version}`;
}

/** The changes that some followers have and others lack. Each is parsed once, for the first that has it. */
export class Changes {
  readonly #followers: number;
  readonly #deliveries: Deliveries;
  readonly #changes = new Map<number, Change>();

  constructor(followers: number, deliveries: Deliveries) {
    this.#followers = followers;
    this.#deliveries = deliveries;
  }

  /** How often a change is missing at a follower, while another has it. */
  get missing(): number {
    return [...this.#changes.values()].reduce((sum, { missing }) => sum + missing, 0);
  }

  /** The change of a block that begins with its position. */
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

/** What a follower makes of the changes: the last one of each user and post. */
export class Replica {
  readonly rows = new Map<string, Last>();
  readonly faults = { missing: 0, doubled: 0, outOfOrder: 0, different: 0 };
  position = 0;
  changes = 0;

  /** Returns whether a change is new: it was not there before, and does not come too late. */
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

  /** How many records differ from those of a store. */
  differences(stored: ReadonlyMap<string, string>): number {
    const names = new Set([...this.rows.keys(), ...stored.keys()]);
    return [...names].filter((name) => this.rows.get(name)?.row !== stored.get(name)).length;
  }
}

export function rowText(row: Readonly<Record<string, unknown>>): string {
  return JSON.stringify(Object.entries(row).sort(([a], [b]) => (a < b ? -1 : 1)));
}
