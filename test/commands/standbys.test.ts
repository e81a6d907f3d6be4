import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { startPostgres } from '../kit/postgres.ts';
import { printed, startProcess, withoutGrpc } from '../kit/process.ts';
import { runCommand } from '../support/command.ts';

describe('the standbys of --read-database', async () => {
  const postgres = await startPostgres({ fsync: 'on', full_page_writes: 'on' });
  after(() => postgres.close());
  const standby = await postgres.createStandby();
  const closed = 1;
  const primary = postgres.server.url();
  const urlOf = (...ports: readonly number[]) =>
    primary.replace(/127\.0\.0\.1.*(?=\/)/, ports.map((port) => `127.0.0.1:${port}`).join());
  const unreachable = `--read-database: 127.0.0.1:${closed} cannot be used: connect ECONNREFUSED 127.0.0.1:${closed}`;

  async function doctor(standbys: string, ...more: string[]) {
    const args = ['doctor', '--port', '0', '--grpc-port', '0', '--database', primary];
    const { code, stdout } = await runCommand([...args, '--read-database', standbys, ...more]);
    const lines = stdout.split('\n').filter((line) => line.includes('--read-database: '));
    return { code, lines, problems: stdout.split('\n').filter((line) => /^(?:warn|fail)/.test(line)) };
  }

  it('doctor examines each of them, and warns of one that cannot be reached', async () => {
    const { code, lines, problems } = await doctor(urlOf(standby.port, closed));
    assert.deepEqual(problems, [`warn  ${unreachable}; check the URL, the server and the network`]);
    assert.match(lines.join('\n'), /^ok {4}--read-database: 127\.0\.0\.1:\d+: PostgreSQL \S+.*, a standby/);
    assert.equal(code, 3);
  });

  it('doctor finds no problem in one that can be used, whatever servers its URL asks for', async () => {
    const { code, lines } = await doctor(`${urlOf(standby.port)}?target_session_attrs=standby`);
    assert.ok(lines.length > 5, lines.join('\n'));
    assert.equal(code, 0);
  });

  it('doctor counts the connections of all workers, to the primary and to each of them', async () => {
    const { problems } = await doctor(urlOf(standby.port), '--workers', '20');
    const needs =
      /^warn {2}.*: it allows \d+ more connections, and this copy of the service opens up to 520; raise/;
    assert.equal(problems.length, 2);
    for (const problem of problems) assert.match(problem, needs);
  });

  for (const workers of ['1', '2']) {
    it(`the service with --workers ${workers} warns once of one that cannot be reached`, async (t) => {
      const args = [...withoutGrpc, '--database', primary, '--workers', workers];
      const running = await startProcess(t, [...args, '--read-database', urlOf(standby.port, closed)]);
      await printed(running, 'warning');
      assert.equal(await running.end(), 0);
      const warnings = running.lines.flatMap(({ event, message }) => (event === 'warning' ? [message] : []));
      assert.deepEqual(warnings, [`${unreachable}; the primary serves its reads`]);
    });
  }
});
