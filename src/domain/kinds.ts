import { postBodies, type StoredPost } from './post.ts';
import type { BodyParsers, RecordKind } from './record.ts';
import { type StoredUser, userBodies } from './user.ts';

export interface Records {
  readonly users: StoredUser;
  readonly posts: StoredPost;
}

export type Row = Records[RecordKind];

export const bodiesOf: Readonly<Record<RecordKind, BodyParsers<object>>> = {
  users: userBodies,
  posts: postBodies,
};
