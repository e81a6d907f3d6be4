import type { Command } from './command.ts';

/** Every command by its name, loaded when it is asked for. */
export const commands: Readonly<Record<string, () => Promise<Command>>> = {
  serve: async () => (await import('./serve.ts')).serve,
  copy: async () => (await import('./copy.ts')).copy,
  export: async () => (await import('./export.ts')).exportRecords,
  import: async () => (await import('./import.ts')).importRecords,
  backup: async () => (await import('./backup.ts')).backup,
};
