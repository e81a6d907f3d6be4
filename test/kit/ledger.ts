import { randomUUID } from 'node:crypto';

/** A creation that a client wants to happen once. */
export interface Intent {
  readonly key: string;
  readonly name: string;
  /** The id in the response. Undefined until the creation was acknowledged. */
  id?: number;
}

/** The creations that clients have requested, and which of them were acknowledged. */
export class Ledger {
  readonly intents: Intent[] = [];

  add(): Intent {
    const key = randomUUID();
    const intent: Intent = { key, name: `name ${key}` };
    this.intents.push(intent);
    return intent;
  }

  get acknowledged(): Intent[] {
    return this.intents.filter((intent) => intent.id !== undefined);
  }

  /** Compares the creations with all users of the store, including those of other clients. */
  compare(users: readonly { readonly id: number; readonly name: string }[]): LedgerReport {
    const byName = new Map<string, number[]>(this.intents.map(({ name }) => [name, []]));
    for (const { id, name } of users) byName.get(name)?.push(id);
    const ids = this.acknowledged.map((intent) => intent.id);
    return {
      acknowledged: ids.length,
      lost: this.acknowledged.filter(({ name, id }) => !byName.get(name)?.includes(id ?? 0)).length,
      doubled: [...byName.values()].filter((found) => found.length > 1).length,
      reusedIds: ids.length - new Set(ids).size,
    };
  }
}

export interface LedgerReport {
  readonly acknowledged: number;
  /** Creations that were acknowledged and are missing. */
  readonly lost: number;
  /** Creations that happened more than once. */
  readonly doubled: number;
  /** Ids that two creations have received. */
  readonly reusedIds: number;
}

/**
 * `refused` means that another attempt is running (409), or that the service is unavailable (503). `gone` means that there
 * was no complete response, so the creation may have happened.
 */
export type CreateOutcome = 'acknowledged' | 'refused' | 'gone';

/** Sends a creation. Rejects for any other response. */
export async function create(url: string, intent: Intent): Promise<CreateOutcome> {
  const response = await fetch(`${url}/users`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': intent.key },
    body: JSON.stringify({ name: intent.name }),
  }).catch(() => undefined);
  const text = await response?.text().catch(() => undefined);
  if (response === undefined || text === undefined) return 'gone';
  if (response.status === 409 || response.status === 503) return 'refused';
  const id = response.status === 201 ? JSON.parse(text).id : undefined;
  if (!Number.isInteger(id)) throw new Error(`POST returned ${response.status}: ${text}`);
  intent.id = id;
  return 'acknowledged';
}

/** Reads all users along the `next` links. */
export async function allUsers(url: string): Promise<{ id: number; name: string }[]> {
  const users: { id: number; name: string }[] = [];
  for (let path: string | undefined = '/users?limit=100'; path !== undefined; ) {
    const response = await fetch(url + path);
    users.push(...JSON.parse(await response.text()));
    path = /<([^>]+)>; rel="next"/.exec(response.headers.get('link') ?? '')?.[1];
  }
  return users;
}
