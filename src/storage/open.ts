import type { Store } from '../domain/transfer.ts';
export async function openStore(url: string): Promise<Store> {
  const { createMemoryStore } = await import('./memory.ts');
  return createMemoryStore();
}
