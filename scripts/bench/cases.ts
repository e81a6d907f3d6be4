import type { Case } from './case.ts';
import { largeFile, smallFile } from './cases/files.ts';
import { growth } from './cases/growth.ts';
import { getUserByGrpc } from './cases/grpc.ts';
import { memoryOfStream, memoryUnderLoad } from './cases/memory.ts';
import { getFromPostgres, listFromPostgres } from './cases/postgres.ts';
import { startToFirstAnswer } from './cases/start.ts';
import { createUser, createUserSlowly, getUser, listUsers } from './cases/users.ts';
import { oneAndTwoWorkers } from './cases/workers.ts';

/** Every case, in the order they run. */
export const cases: readonly Case[] = [
  getUser,
  listUsers,
  createUser,
  createUserSlowly,
  smallFile,
  largeFile,
  getUserByGrpc,
  oneAndTwoWorkers,
  getFromPostgres,
  listFromPostgres,
  startToFirstAnswer,
  memoryOfStream,
  ...growth,
  memoryUnderLoad,
];
