import type { Addresses } from '../service.ts';

/** The environment variable by which a worker is told its ports, HTTP's and gRPC's, in JSON. */
export const portsVariable = 'USERS_SERVICE_WORKER_PORTS';

/** What a worker and its primary say to each other. */
export type ToPrimary = { readonly ready: Addresses } | { readonly metrics: string } | 'gather';
export type ToWorker = 'stop' | 'report' | { readonly gathered: string };
