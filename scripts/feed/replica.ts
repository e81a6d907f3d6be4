import { createHash } from 'node:crypto';

/** A change as the service sends it, in the parts that are needed here. */
export interface Event {
  readonly id: string;
  readonly type: string;
  readonly version: number;
  readonly data: Readonly<Record<string, unknown>> & { readonly id: number };
}

export interface Faults {
  missing: number;
  doubled: number;
  outOfOrder: number;
}

/** Which version of which record a change is about, or that it was deleted. */
export function nameOf(kind: string, id: number, version: number | 'deleted'): string {
  return `${kind} ${id} ${version}`;
}

/** What a follower makes of the changes: users and posts, each as the text that `rowText` gives. */
export class Replica {
  readonly rows = new Map<string, string>();
  readonly faults: Faults = { missing: 0, doubled: 0, outOfOrder: 0 };
  readonly #versions = new Map<string, number>();
  readonly #digest = createHash('sha256');
  position = 0;
  changes = 0;

  /** Returns the name of the change; nothing when it was there before, or came too late. */
  apply({ id, type, version, data }: Event): string | undefined {
    const position = Number(id);
    const [kind = '', verb] = type.split('.');
    const record = `${kind} ${data.id}`;
    const known = this.#versions.get(record) ?? 0;
    const isDeletion = verb === 'deleted';
    if (position <= this.position) {
      if (version <= known) this.faults.doubled += 1;
      else this.faults.outOfOrder += 1;
      return undefined;
    }
    this.position = position;
    this.changes += 1;
    this.#digest.update(`${id} ${type} ${record} ${version}\n`);
    const expected = isDeletion ? known : known + 1;
    if (version > expected) this.faults.missing += 1;
    if (version < expected) this.faults.outOfOrder += 1;
    if (isDeletion) {
      this.#versions.delete(record);
      this.rows.delete(record);
    } else {
      this.#versions.set(record, version);
      this.rows.set(record, rowText({ ...data, version }));
    }
    return nameOf(kind, data.id, isDeletion ? 'deleted' : version);
  }

  /** Equal for two replicas that applied the same changes. */
  digest(): string {
    return this.#digest.copy().digest('hex');
  }
}

export function rowText(row: Readonly<Record<string, unknown>>): string {
  return JSON.stringify(Object.entries(row).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** How many of two maps' entries differ. */
export function countDifferences(
  one: ReadonlyMap<string, string>,
  other: ReadonlyMap<string, string>,
): number {
  const names = new Set([...one.keys(), ...other.keys()]);
  return [...names].filter((name) => one.get(name) !== other.get(name)).length;
}
