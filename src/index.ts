export type { AuthMode } from './domain/access.ts';
export type { Change, ChangePage, ChangeQuery, ChangeType, Origin } from './domain/change.ts';
export { ChangesGone } from './domain/change.ts';
export { DomainError, type ErrorKind, errorKinds } from './domain/errors.ts';
export type { Records } from './domain/kinds.ts';
export type { ListQuery, Page, PageStart, Position, Sort, SortKey } from './domain/list-query.ts';
export type {
  Post,
  PostDraft,
  PostField,
  PostFilter,
  PostPatch,
  PostQuery,
  StoredPost,
} from './domain/post.ts';
export type { Patch, RecordKind, Stored } from './domain/record.ts';
export type {
  Answer,
  AnyQuery,
  CallOptions,
  ChangeFeed,
  ChangeOptions,
  Collection,
  Created,
  CreateOptions,
  IdempotencyKey,
  Repository,
  Store,
  StoreSummary,
} from './domain/repository.ts';
export { idempotencyTtlMs } from './domain/repository.ts';
export type {
  StoredUser,
  User,
  UserDraft,
  UserField,
  UserFilter,
  UserPatch,
  UserQuery,
} from './domain/user.ts';
export type { RequestListener } from './http/listener.ts';
export type { ListenerLimits } from './http/request.ts';
export type { HttpTimeouts, TlsOptions } from './http/server.ts';
export { createFetchHandler, type FetchHandler } from './service/fetch-handler.ts';
export { StartError, type StartOption } from './service/ports.ts';
export { createRequestListener, type RequestListenerOptions } from './service/request-listener.ts';
export { type CloseOptions, createService, type Service, type ServiceOptions } from './service/service.ts';
export { addUsersService, type GrpcLimits, type UsersServiceOptions } from './service/users-service.ts';
export { openStore, type StoreOptions } from './storage/open.ts';
export type {
  Addresses,
  FailureEvent,
  ListeningEvent,
  Observe,
  RefusedEvent,
  RequestEvent,
  ServiceEvent,
} from './telemetry/events.ts';
export type { MetricsSnapshot } from './telemetry/metrics.ts';
