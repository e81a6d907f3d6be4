import { aborted, storeClosed } from '../domain/errors.ts';
import type { Answer, CallOptions, Store } from '../domain/repository.ts';

type Answers<Method> = Method extends (...args: infer Args) => infer Value
  ? (...args: Args) => Answer<Awaited<Value>>
  : never;

/** A store as each database makes it: it may answer at once, and knows neither of closing nor of signals that have aborted. */
export type BareStore = {
  readonly [Name in Exclude<keyof Store, 'exportRows' | 'changes'>]: Answers<Store[Name]>;
} & Pick<Store, 'exportRows' | 'changes'>;

/** Makes a store of a bare one: it closes once, then refuses every call, and no read begins whose signal has aborted. */
export function createStore(bare: BareStore): Store {
  let closing: Promise<void> | undefined;
  const enter = ({ signal }: CallOptions = {}): void => {
    if (closing !== undefined) throw storeClosed();
    if (signal?.aborted) throw aborted(signal);
  };
  // Without a promise where the database answers at once; each would cost a turn of the microtasks.
  const answer = <T>(options: CallOptions | undefined, read: () => Answer<T>): Answer<T> => {
    try {
      enter(options);
      return read();
    } catch (error) {
      return Promise.reject(error);
    }
  };
  const { changes } = bare;
  return {
    ...(changes && {
      changes: {
        async read(query, options) {
          enter(options);
          return changes.read(query, options);
        },
        async position(options) {
          enter(options);
          return changes.position(options);
        },
        watch(wake) {
          enter();
          return changes.watch(wake);
        },
      },
    }),
    getUser: (id, options) => answer(options, () => bare.getUser(id, options)),
    async listUsers(query, options) {
      enter(options);
      return bare.listUsers(query, options);
    },
    async countUsers(filter, options) {
      enter(options);
      return bare.countUsers(filter, options);
    },
    async listPosts(userId, query, options) {
      enter(options);
      return bare.listPosts(userId, query, options);
    },
    async countPosts(userId, filter, options) {
      enter(options);
      return bare.countPosts(userId, filter, options);
    },
    getPost: (userId, id, options) => answer(options, () => bare.getPost(userId, id, options)),
    async ping(options) {
      enter(options);
      return bare.ping(options);
    },
    async createUser(draft, options) {
      enter();
      return bare.createUser(draft, options);
    },
    async updateUser(id, patch, options) {
      enter();
      return bare.updateUser(id, patch, options);
    },
    async deleteUser(id, options) {
      enter();
      return bare.deleteUser(id, options);
    },
    async createPost(userId, draft, options) {
      enter();
      return bare.createPost(userId, draft, options);
    },
    async updatePost(userId, id, patch, options) {
      enter();
      return bare.updatePost(userId, id, patch, options);
    },
    async deletePost(userId, id, options) {
      enter();
      return bare.deletePost(userId, id, options);
    },
    async summary() {
      enter();
      return bare.summary();
    },
    async exportRows(kind, afterId, limit) {
      enter();
      return bare.exportRows(kind, afterId, limit);
    },
    async importRows(kind, rows) {
      enter();
      return bare.importRows(kind, rows);
    },
    async continueIds(last) {
      enter();
      return bare.continueIds(last);
    },
    close() {
      closing ??= Promise.resolve(bare.close());
      return closing;
    },
  };
}
