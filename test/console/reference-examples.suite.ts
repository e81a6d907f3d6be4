import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { noBrowser } from '../kit/browser.ts';
import { send } from '../support/client.ts';
import { runTool } from '../support/tool.ts';
import { useBrowser } from './pages.ts';
import { startService } from './service.ts';

const hasRequests = (await runTool('python3', ['-c', 'import requests'])).code === 0;

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

  for (const [language, run, skip] of [
    ['curl', runCurl, false],
    ['fetch', runFetch, false],
    ['Python', runPython, hasRequests ? false : 'requests is not installed for python3'],
  ] as const) {
    test(`every example in ${language} runs`, { skip }, async (t) => {
      const { http } = await startService(t, { apiKeys: ['key'], expectFailures: true });
      // More users than one page, so that the loop over the list reads a second page.
      for (let i = 0; i < 21; i += 1) await send(http, 'POST /users', { json: { name: `User ${i}` } });
      const page = await open(t, `${http}/api.html`);
      await page.locator('article').first().waitFor();
      await page.getByRole('button', { name: language, exact: true }).first().click();
      const ids = await page.locator('article').evaluateAll((articles) => articles.map(({ id }) => id));
      // The other examples need the user that this one deletes.
      const ordered = [...ids.filter((id) => id !== 'deleteUser'), 'deleteUser'];
      const code = (id: string) => page.locator(`#${id} .samples pre code`).first().textContent();
      const codes = await Promise.all(ordered.map(code));
      const results = await run(codes.map((text) => text ?? ''));
      const failed = ordered.filter((_, i) => results[i] !== true);
      assert.deepEqual(failed, ['boom'], 'only the operation that always fails may fail');
    });
  }

  test('no line of an example breaks after the dash of an option', async (t) => {
    const { http } = await startService(t);
    const page = await open(t, `${http}/api.html`);
    await page.locator('article').first().waitFor();
    for (const width of [360, 800, 1_600]) {
      await page.setViewportSize({ width, height: 800 });
      const options = await page
        .locator('pre .unbroken')
        .evaluateAll((elements) =>
          elements.map((element) => ({ text: element.textContent, lines: element.getClientRects().length })),
        );
      assert.ok(options.some(({ text }) => text === '-o'));
      assert.deepEqual(
        options.filter(({ text, lines }) => lines > 1 || !text?.startsWith('-')),
        [],
      );
    }
  });
});
