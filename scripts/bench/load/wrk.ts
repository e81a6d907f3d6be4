import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from './run.ts';
import type { Load, LoadRequest, LoadResult } from './types.ts';

// The requests are formatted once, before the clock runs; what is left for each is one look-up.
const script = (requests: readonly LoadRequest[]) => `
local sources = {
${requests.map(source).join(',\n')}
}
local requests = {}
local last = 0
init = function()
  for i, r in ipairs(sources) do requests[i] = wrk.format(r[1], r[2], r[3], r[4]) end
end
request = function()
  last = last % #requests + 1
  return requests[last]
end
done = function(summary, latency)
  local e = summary.errors
  io.write(string.format('\\nRESULT {"requests":%d,"seconds":%f,"errors":%d,"bytes":%d,"p50Ms":%f,"p99Ms":%f}\\n',
    summary.requests, summary.duration / 1e6, e.connect + e.read + e.write + e.status + e.timeout,
    summary.bytes, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
`;

function source({ method = 'GET', path, headers = {}, body }: LoadRequest): string {
  const fields = Object.entries(headers).map(([name, value]) => `[${lua(name)}]=${lua(value)}`);
  const text = body === undefined ? 'nil' : lua(String(body));
  return `{${lua(method)},${lua(path)},{${fields.join(',')}},${text}}`;
}

// JSON's escapes of quotes and backslashes are Lua's, too; nothing else occurs here.
const lua = (text: string) => JSON.stringify(text);

export async function loadByWrk(url: string, load: Load, seconds: number): Promise<LoadResult> {
  const folder = mkdtempSync(join(tmpdir(), 'wrk-'));
  try {
    const file = join(folder, 'load.lua');
    writeFileSync(file, script(load.requests));
    const output = await run('wrk', [
      '-t1',
      `-c${load.connections}`,
      `-d${seconds}s`,
      '--timeout',
      '30s',
      '-s',
      file,
      url,
    ]);
    const line = /^RESULT (.*)$/m.exec(output)?.[1];
    if (line === undefined) throw new Error(`wrk gave no result:\n${output}`);
    return { generator: 'wrk', ...JSON.parse(line) };
  } finally {
    rmSync(folder, { recursive: true });
  }
}
