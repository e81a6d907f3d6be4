import { subscribe } from 'node:diagnostics_channel';
import { globalAgent, type ServerResponse } from 'node:http';
import type { TestContext } from 'node:test';
import { openForwarder } from '../kit/forwarder.ts';
import * as support from '../support/service.ts';
import { expectAway, isKnown } from './pages.ts';

// The console has 38 files. Loading them takes more processor time than a short test, so a page keeps them for
// its next test. The service lets browsers keep no file without a check, which the tests of static files cover.
subscribe('http.server.response.created', (message) => {
  const { request, response } = message as { request: { url: string }; response: ServerResponse };
  if (!/\.(css|js|svg)$/.test(request.url)) return;
  const writeHead = response.writeHead.bind(response);
  Object.assign(response, {
    writeHead: (status: number, headers: object) =>
      writeHead(status, { ...headers, 'cache-control': 'max-age=3600' }),
  });
});

/** The ports of finished tests. A page can use its files again only at the same address. */
const ports = new Set<number>();

/** Starts a service in this process for a page. */
export function startService(
  t: TestContext,
  options: support.StartOptions = {},
): Promise<support.RunningService> {
  return openOnUsedPort(t, (port) => support.startService(t, { ...options, port }));
}

/** A service at an address that another program cannot take while the service is stopped. */
export async function startRestartable(t: TestContext, options: support.StartOptions = {}) {
  let running = await support.startService(t, options);
  const forwarder = await openOnUsedPort(t, async (port) => {
    const opened = await openForwarder(running.port, port);
    t.after(() => opened.close());
    return opened;
  });
  const http = `http://127.0.0.1:${forwarder.port}`;
  return {
    http,
    stop: () => {
      expectAway(t, http);
      return running.service.close({ timeoutMs: 500 });
    },
    startAgain: async (again = options) => {
      running = await support.startService(t, again);
      forwarder.moveTo(running.port);
    },
  };
}

/** Opens a server on the port of a finished test if there is one, and no other program has taken it. */
async function openOnUsedPort<T extends { readonly port: number }>(
  t: TestContext,
  openOn: (port: number) => Promise<T>,
): Promise<T> {
  const used = [...ports].find(isKnown) ?? [...ports][0] ?? 0;
  ports.delete(used);
  const opened = await openOn(used).catch(() => openOn(0));
  // This runs after the server has closed. The agent may not know yet that its connections are closed.
  t.after(() => {
    for (const socket of globalAgent.freeSockets[`127.0.0.1:${opened.port}:`] ?? []) socket.destroy();
    ports.add(opened.port);
  });
  return opened;
}
