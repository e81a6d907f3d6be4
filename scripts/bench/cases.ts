import type { Case } from './case.ts';
import { largeFile, smallFile } from './cases/files.ts';
import { growthOfGet, growthOfNext } from './cases/growth.ts';
import { getUserByGrpc } from './cases/grpc.ts';
import { memoryOfStream, memoryUnderLoad } from './cases/memory.ts';
import { startToFirstAnswer } from './cases/start.ts';
import { createUser, getUser, listUsers } from './cases/users.ts';

/** Every case, in the order they run. */
export const cases: readonly Case[] = [
  getUser,
  listUsers,
  createUser,
  smallFile,
  largeFile,
  getUserByGrpc,
  startToFirstAnswer,
  memoryOfStream,
  growthOfGet,
  growthOfNext,
  memoryUnderLoad,
];
