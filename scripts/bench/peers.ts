import { goPeer, peer, service } from './subject.ts';
import type { Contestant } from './turns.ts';

export const ours = 'users-service';

/** The service with a file and all features, as it is always measured. */
export function serviceOver(file: string, ...args: readonly string[]): Contestant {
  return { name: ours, program: service(['--database', `sqlite:${file}`, ...args]) };
}

const programs = {
  Fastify: 'fastify.ts',
  Hono: 'hono.ts',
  Express: 'express.ts',
  Koa: 'koa.ts',
  NestJS: 'nest.ts',
} as const;

export type PeerName = keyof typeof programs | 'Go';

export const allPeers: readonly PeerName[] = ['Fastify', 'Hono', 'Express', 'Koa', 'NestJS', 'Go'];

export function bare(name: PeerName): string {
  return `${name}, bare`;
}

/** A peer with a file, with the same features as the service or bare. `undefined` if Go is missing. */
export function peerOver(name: PeerName, file: string, folder: string, isBare = false): Contestant[] {
  const args = isBare ? [file] : [file, '--features'];
  const program = name === 'Go' ? goPeer(folder, ...args) : peer(programs[name], ...args);
  return program === undefined ? [] : [{ name: isBare ? bare(name) : name, program }];
}
