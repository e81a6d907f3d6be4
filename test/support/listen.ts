import type { AddressInfo, Server } from 'node:net';
import type { TestContext } from 'node:test';

/** Makes a server listen on a free port until the test ends. */
export async function listen(
  t: Pick<TestContext, 'after'>,
  server: Server & { closeAllConnections?(): void },
): Promise<{ http: string; port: number }> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.close();
    server.closeAllConnections?.();
  });
  const { port } = server.address() as AddressInfo;
  return { http: `http://127.0.0.1:${port}`, port };
}
