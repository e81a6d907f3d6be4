import type { Post } from './post.ts';
import type { Repository } from './repository.ts';
import type { StoredUser } from './user.ts';

/** How much a store holds, and the last ids it gave, deleted rows included (0: none yet). */
export interface StoreSummary {
  readonly users: number;
  readonly posts: number;
  readonly lastUserId: number;
  readonly lastPostId: number;
}

/** A store whose whole content can move to another, ids, versions and id sequences kept. */
export interface Store extends Repository {
  summary(): Promise<StoreSummary>;

  /** Users with an id above `afterId`, by id. */
  exportUsers(afterId: number, limit: number): Promise<readonly StoredUser[]>;

  /** Posts with an id above `afterId`, by id. */
  exportPosts(afterId: number, limit: number): Promise<readonly Post[]>;

  /**
   * Adds users as they are, all or none, and resolves to how many were new. One that is there
   * already, equal in every field, is left; one that differs fails the batch with `conflict`.
   */
  importUsers(users: readonly StoredUser[]): Promise<number>;

  /** As `importUsers`; a post whose user is missing fails the batch with `conflict`. */
  importPosts(posts: readonly Post[]): Promise<number>;

  /** Sees to it that no id up to these is given from now on; never lowers what is there. */
  continueIds(last: Pick<StoreSummary, 'lastUserId' | 'lastPostId'>): Promise<void>;
}
