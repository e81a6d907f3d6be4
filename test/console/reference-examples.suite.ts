import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { suite, test } from 'node:test';
import { noBrowser } from '../kit/browser.ts';
import { send } from '../support/client.ts';
import { runTool } from '../support/tool.ts';
import { useBrowser } from './pages.ts';
import { startService } from './service.ts';

const hasRequests = spawnSync('python3', ['-c', 'import requests']).status === 0;

// Each function runs examples in order, and resolves to whether each has succeeded.

async function runCurl(codes: readonly string[]): Promise<boolean[]> {
  const results: boolean[] = [];
  for (const code of codes) {
    const line = `API_KEY=key; ${code} --fail --silent`;
    results.push((await runTool('sh', ['-c', line])).code === 0);
  }
  return results;
}

async function runFetch(codes: readonly string[]): Promise<boolean[]> {
  const results: boolean[] = [];
  for (const code of codes) {
    const module = code.replace('"your API key"', '"key"').replaceAll('console.log', 'String');
    const done = import(`data:text/javascript,${encodeURIComponent(module)}`);
    results.push(
      await done.then(
        () => true,
        () => false,
      ),
    );
  }
  return results;
}

async function runPython(codes: readonly string[]): Promise<boolean[]> {
  // One process for all, since importing requests takes most of the time.
  const runner = [
    'import contextlib, io, json, os, sys',
    'os.environ["API_KEY"] = "key"',
    'def runs(code):',
    '    try:',
    '        with contextlib.redirect_stdout(io.StringIO()): exec(code, {})',
    '        return True',
    '    except Exception: return False',
    'print(json.dumps([runs(code) for code in json.loads(sys.argv[1])]))',
  ].join('\n');
  return JSON.parse((await runTool('python3', ['-c', runner, JSON.stringify(codes)])).stdout);
}

suite('console: the examples on the page of the API', { skip: noBrowser, concurrency: 2 }, () => {
  const open = useBrowser();

  test('the examples are on lines that break well, and run', async (t) => {
    const options = { apiKeys: ['key'], expectFailures: true };
    const shown = await startService(t, options);
    const page = await open(t, `${shown.http}/api.html`);
    await page.locator('article').first().waitFor();
    const ids = await page.locator('article').evaluateAll((articles) => articles.map(({ id }) => id));
    // The other examples need the user that this one deletes.
    const ordered = [...ids.filter((id) => id !== 'deleteUser'), 'deleteUser'];
    const code = (id: string) => page.locator(`#${id} .samples pre code`).first().textContent();

    await t.test('no line of an example breaks after the dash of an option', async () => {
      for (const width of [360, 800, 1_600]) {
        await page.setViewportSize({ width, height: 800 });
        const dashed = await page.locator('pre .unbroken').evaluateAll((elements) =>
          elements.map((element) => ({
            text: element.textContent,
            lines: element.getClientRects().length,
          })),
        );
        assert.ok(dashed.some(({ text }) => text === '-o'));
        assert.deepEqual(
          dashed.filter(({ text, lines }) => lines > 1 || !text?.startsWith('-')),
          [],
        );
      }
    });

    const runs: Promise<void>[] = [];
    for (const [language, run, skip] of [
      ['curl', runCurl, false],
      ['fetch', runFetch, false],
      ['Python', runPython, hasRequests ? false : 'requests is not installed for python3'],
    ] as const) {
      await page.getByRole('button', { name: language, exact: true }).first().click();
      const codes = await Promise.all(ordered.map(code));
      const done = t.test(`every example in ${language} runs`, { skip }, async (t) => {
        const { http } = await startService(t, options);
        // More users than one page, so that the loop over the list reads a second page.
        for (let i = 0; i < 21; i += 1) await send(http, 'POST /users', { json: { name: `User ${i}` } });
        const results = await run(codes.map((text) => text?.replaceAll(shown.http, http) ?? ''));
        const failed = ordered.filter((_, i) => results[i] !== true);
        assert.deepEqual(failed, ['boom'], 'only the operation that always fails may fail');
      });
      runs.push(done);
    }
    await Promise.all(runs);
  });
});
