import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Collects all garbage. Resolves to how many of these objects are still in memory. */
export async function countKept(objects: readonly WeakRef<object>[]): Promise<number> {
  // A `WeakRef` keeps its object until the end of the turn that has created or read it.
  await nextTurn();
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  return objects.filter((object) => object.deref() !== undefined).length;
}
