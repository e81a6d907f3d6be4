import { staticFiles } from './cases/files.ts';
import { growth } from './cases/growth.ts';
import { getUserByGrpc } from './cases/grpc.ts';
import { latency, latencyOnSlowDisk } from './cases/latency.ts';
import { memoryOfIdleConnections, memoryOfStream, smallHeap, soak } from './cases/memory.ts';
import { getUser, listUsers } from './cases/reads.ts';
import { startToFirstAnswer } from './cases/start.ts';
import { sharing, workers } from './cases/workers.ts';
import { createInMemory, createOnDisk, createOnSlowDisk } from './cases/writes.ts';
import type { Case } from './result.ts';

/** All cases in the order in which they run. */
export const cases: readonly Case[] = [
  getUser,
  listUsers,
  createOnDisk,
  createOnSlowDisk,
  createInMemory,
  staticFiles,
  getUserByGrpc,
  latency,
  latencyOnSlowDisk,
  workers,
  sharing,
  startToFirstAnswer,
  memoryOfIdleConnections,
  smallHeap,
  memoryOfStream,
  growth,
  soak,
];
