import { aborted, DomainError, preconditionFailed, storeClosed } from '../../domain/errors.ts';
import type { Page, PostQuery, UserFilter, UserQuery } from '../../domain/list-query.ts';
import type { Post, PostDraft } from '../../domain/post.ts';
import type {
  CallOptions,
  ChangeOptions,
  Created,
  CreateOptions,
  Store,
  StoreSummary,
} from '../../domain/repository.ts';
import type { StoredUser, User, UserDraft, UserPatch } from '../../domain/user.ts';
import { idsExhausted, maxId } from '../../domain/user.ts';
import { KeptResults, type KeptResultsOptions } from './idempotency.ts';
import { newRows, pageOf, rowsById } from './rows.ts';

export type MemoryStoreOptions = KeptResultsOptions;

export function createMemoryStore(options: MemoryStoreOptions = {}): Store {
  return new MemoryStore(options);
}

/**
 * The contract in its plainest form, for tests and demos. No method awaits, so each is atomic. Rows
 * are frozen and replaced whole: what was handed out never changes and cannot be changed.
 */
class MemoryStore implements Store {
  readonly #users = new Map<number, StoredUser>();
  readonly #posts = new Map<number, Post>();
  readonly #results: KeptResults;
  #lastUserId = 0;
  #lastPostId = 0;
  #closed = false;

  constructor(options: MemoryStoreOptions) {
    this.#results = new KeptResults(options);
  }

  async getUser(id: number, options?: CallOptions): Promise<StoredUser | undefined> {
    this.#enter(options);
    return this.#users.get(id);
  }

  async listUsers(query: UserQuery, options?: CallOptions): Promise<Page<User>> {
    this.#enter(options);
    const users = this.#usersIn(query.filter).map(({ version: _, ...user }): User => user);
    return pageOf(users, query);
  }

  async countUsers(filter: UserFilter, options?: CallOptions): Promise<number> {
    this.#enter(options);
    return this.#usersIn(filter).length;
  }

  async createUser(draft: UserDraft, options?: CreateOptions): Promise<Created<StoredUser>> {
    this.#enter();
    const kept = this.#results.find<StoredUser>(options);
    if (kept !== undefined) return kept;
    if (this.#lastUserId >= maxId) throw idsExhausted();
    this.#lastUserId += 1;
    return this.#results.keep(this.#put(this.#lastUserId, draft.name, draft.role, 1), options);
  }

  async updateUser(id: number, patch: UserPatch, options?: ChangeOptions): Promise<StoredUser | undefined> {
    this.#enter();
    const user = this.#expect(id, options);
    if (user === undefined) return undefined;
    const name = patch.name ?? user.name;
    const role = patch.role === undefined ? user.role : (patch.role ?? undefined);
    if (name === user.name && role === user.role) return user;
    return this.#put(id, name, role, user.version + 1);
  }

  async deleteUser(id: number, options?: ChangeOptions): Promise<boolean> {
    this.#enter();
    if (this.#expect(id, options) === undefined) return false;
    for (const post of this.#postsOf(id)) this.#posts.delete(post.id);
    return this.#users.delete(id);
  }

  async listPosts(userId: number, query: PostQuery, options?: CallOptions): Promise<Page<Post> | undefined> {
    this.#enter(options);
    return this.#users.has(userId) ? pageOf(this.#postsOf(userId), query) : undefined;
  }

  async countPosts(userId: number, options?: CallOptions): Promise<number | undefined> {
    this.#enter(options);
    return this.#users.has(userId) ? this.#postsOf(userId).length : undefined;
  }

  async createPost(
    userId: number,
    draft: PostDraft,
    options?: CreateOptions,
  ): Promise<Created<Post> | undefined> {
    this.#enter();
    const kept = this.#results.find<Post>(options);
    if (kept !== undefined) return kept;
    if (!this.#users.has(userId)) return undefined;
    if (this.#lastPostId >= maxId) throw idsExhausted();
    this.#lastPostId += 1;
    const post = Object.freeze({ id: this.#lastPostId, userId, title: draft.title, body: draft.body });
    this.#posts.set(post.id, post);
    return this.#results.keep(post, options);
  }

  async ping(options?: CallOptions): Promise<void> {
    this.#enter(options);
  }

  async close(): Promise<void> {
    this.#closed = true;
  }

  async summary(): Promise<StoreSummary> {
    this.#enter();
    const lastIds = { lastUserId: this.#lastUserId, lastPostId: this.#lastPostId };
    return { users: this.#users.size, posts: this.#posts.size, ...lastIds };
  }

  async exportUsers(afterId: number, limit: number): Promise<readonly StoredUser[]> {
    this.#enter();
    return rowsById(this.#users, afterId, limit);
  }

  async exportPosts(afterId: number, limit: number): Promise<readonly Post[]> {
    this.#enter();
    return rowsById(this.#posts, afterId, limit);
  }

  async importUsers(users: readonly StoredUser[]): Promise<number> {
    this.#enter();
    const added = newRows('user', this.#users, users);
    for (const { id, name, role, version } of added) this.#put(id, name, role, version);
    this.#lastUserId = Math.max(this.#lastUserId, ...added.map((user) => user.id));
    return added.length;
  }

  async importPosts(posts: readonly Post[]): Promise<number> {
    this.#enter();
    const added = newRows('post', this.#posts, posts);
    const orphan = added.find((post) => !this.#users.has(post.userId));
    if (orphan !== undefined) throw new DomainError('conflict', `post ${orphan.id} has no user`);
    for (const post of added) this.#posts.set(post.id, Object.freeze({ ...post }));
    this.#lastPostId = Math.max(this.#lastPostId, ...added.map((post) => post.id));
    return added.length;
  }

  async continueIds({
    lastUserId,
    lastPostId,
  }: Pick<StoreSummary, 'lastUserId' | 'lastPostId'>): Promise<void> {
    this.#enter();
    this.#lastUserId = Math.max(this.#lastUserId, lastUserId);
    this.#lastPostId = Math.max(this.#lastPostId, lastPostId);
  }

  #enter({ signal }: CallOptions = {}): void {
    if (this.#closed) throw storeClosed();
    if (signal?.aborted) throw aborted(signal);
  }

  #expect(id: number, options: ChangeOptions | undefined): StoredUser | undefined {
    const user = this.#users.get(id);
    if (user && options?.expected && !options.expected.includes(user.version)) throw preconditionFailed(id);
    return user;
  }

  #put(id: number, name: string, role: string | undefined, version: number): StoredUser {
    const user = Object.freeze(role === undefined ? { id, name, version } : { id, name, role, version });
    this.#users.set(id, user);
    return user;
  }

  #usersIn({ role }: UserFilter): StoredUser[] {
    return [...this.#users.values()].filter((user) => role === undefined || user.role === role);
  }

  #postsOf(userId: number): Post[] {
    return [...this.#posts.values()].filter((post) => post.userId === userId);
  }
}
