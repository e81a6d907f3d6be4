import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { noBrowser } from '../kit/browser.ts';
import { hasTool, runTool } from '../support/tool.ts';
import { type CurlModule, loadModule, type SentRequest } from './modules.ts';
import { expectAway, useBrowser } from './pages.ts';
import { addUsers, announced, holdResponses, readUser, showView, styleOf } from './people.ts';
import { startService } from './service.ts';

const { curlLine, grpcurlLine, shellQuote } = loadModule<CurlModule>('console/requests/curl.js');
const windows = process.platform === 'win32' && 'the lines are for a POSIX shell';

const request: SentRequest = {
  method: 'GET',
  url: 'http://127.0.0.1:3000/users',
  headers: {},
  body: undefined,
  keyed: false,
};

/** The words that a shell reads from a line. */
async function shellWords(line: string): Promise<string[]> {
  const show = `show() { for word; do printf '%s\\036' "$word"; done; }; show`;
  const { code, stdout } = await runTool('sh', ['-c', `API_KEY='the key'; ${show} ${line}`]);
  assert.equal(code, 0);
  return stdout.split('\u001e').slice(0, -1);
}

suite('console: curl lines in a shell', { skip: windows }, () => {
  for (const [name, text] of [
    ['quotes of both kinds', `it's "so"`],
    ['only single quotes', "''''"],
    ['a command substitution', '$(touch /tmp/x) `id` $HOME'],
    ['an end of the command', '; rm -rf x & | > y #'],
    ['a trailing backslash', 'back\\'],
    ['line breaks and tabs', 'one\ntwo\tthree\n'],
    ['globs, history expansion and a tilde', '~ * ? [a] !! {a,b}'],
    ['text of several scripts', 'فاطمة 👩🏽‍💻 林'],
    ['a leading hyphen', '-rf'],
    ['nothing', ''],
    ['a bare carriage return', 'a\rb'],
  ] as const) {
    test(`a shell reads ${name} in a curl line unchanged`, async () => {
      assert.deepEqual(await shellWords(shellQuote(text)), [text]);
      const body = JSON.stringify({ name: text });
      const line = curlLine({ ...request, method: 'PUT', headers: { 'if-match': '"1"' }, body });
      assert.deepEqual(await shellWords(line), [
        ...['curl', '-i', '-X', 'PUT', '-H', 'if-match: "1"', '-d', body],
        'http://127.0.0.1:3000/users',
      ]);
    });
  }

  test('a shell inserts the key of the environment into a curl line', async () => {
    const words = await shellWords(curlLine({ ...request, keyed: true }));
    assert.deepEqual(words.slice(2, 4), ['-H', 'x-api-key: the key']);
  });
});

suite('console: the text of curl lines', () => {
  for (const [name, changes, expected] of [
    ['GET', {}, 'curl -i http://127.0.0.1:3000/users'],
    ['a query', { url: 'http://h/users?a=1&b=2' }, "curl -i 'http://h/users?a=1&b=2'"],
    ['HEAD', { method: 'HEAD' }, 'curl -I http://127.0.0.1:3000/users'],
    ['POST with a body', { method: 'POST', body: '{}' }, "curl -i -d '{}' http://127.0.0.1:3000/users"],
    [
      'a body that begins with @',
      { method: 'POST', body: '@x' },
      'curl -i --data-raw @x http://127.0.0.1:3000/users',
    ],
    ['DELETE', { method: 'DELETE' }, 'curl -i -X DELETE http://127.0.0.1:3000/users'],
  ] as const) {
    test(`the curl line for ${name} has the shortest form`, () =>
      assert.equal(curlLine({ ...request, ...changes }), expected));
  }

  for (const [name, changes, expected] of [
    ['one user', { url: 'http://h:3000/users/7' }, `grpcurl -plaintext -d '{"id":7}' h:50051 Users/GetUser`],
    ['one user over TLS', { url: 'https://h/users/7' }, `grpcurl -d '{"id":7}' h:50051 Users/GetUser`],
    [
      'one user below a prefix',
      { url: 'https://h/api/users/7' },
      `grpcurl -d '{"id":7}' h:50051 Users/GetUser`,
    ],
    ['the list of users', {}, undefined],
    ['a change of a user', { method: 'PUT', url: 'http://h/users/7' }, undefined],
    ['posts', { url: 'http://h/users/7/posts' }, undefined],
  ] as const) {
    const what = expected === undefined ? 'there is no grpcurl line' : 'there is a grpcurl line';
    test(`${what} for a request of ${name}`, () =>
      assert.equal(grpcurlLine({ ...request, ...changes }, 50051), expected));
  }
});

// These tests run one after another, because all windows share the clipboard.
suite('console: requests', { skip: noBrowser }, () => {
  const open = useBrowser();

  test('requests of one page', async (t) => {
    const { http } = await startService(t);
    await addUsers(http, [{ name: 'Ada' }]);
    const page = await open(t, `${http}/`);
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    const list = `curl -i '${http}/users?limit=20'`;
    const refresh = async () => {
      const read = page.waitForResponse('**/users?*');
      await page.evaluate("document.querySelector('#refresh-button').click()");
      await read;
    };

    await t.test('a button copies the curl line', async () => {
      await page.locator('#dock-line', { hasText: list }).waitFor();
      await page.getByRole('button', { name: 'Copy the last request as a curl command' }).click();
      await announced(page, 'Copied');
      assert.equal(await page.evaluate('navigator.clipboard.readText()'), list);
    });

    await t.test(
      'the list of requests keeps the focus and the selected text during other requests',
      async () => {
        await page.getByRole('button', { name: 'Requests', exact: true }).click();
        await page.getByRole('button', { name: 'Copy this curl command' }).focus();
        await page.evaluate('getSelection().selectAllChildren(document.querySelector("#request-list code"))');
        await page.evaluate("document.querySelector('#refresh-button').click()");
        const items = page.locator('#request-list > li');
        await items.nth(1).waitFor();
        await items.nth(0).getByText('200').waitFor();
        assert.equal(await items.nth(1).locator('button:focus').count(), 1);
        assert.equal(await page.evaluate('getSelection().toString()'), list);
        // The list has the latest 25 requests.
        for (let i = 0; i < 26; i += 1) await refresh();
        await items.nth(24).waitFor();
        assert.equal(await items.count(), 25);
      },
    );

    await t.test('a running request does not have the colour of the one before it', async () => {
      const status = page.locator('#dock-status');
      await status.and(page.locator('[data-class="2"]')).waitFor();
      const { reached, release } = await holdResponses(page, '**/users?*');
      await page.getByRole('button', { name: 'Refresh' }).click();
      await reached;
      assert.equal(await status.textContent(), '…');
      assert.equal(await status.getAttribute('data-class'), '…');
      release();
      await status.and(page.locator('[data-class="2"]')).waitFor();
      await page.unroute('**/users?*');
    });

    await t.test('a request without a response and a cancelled one are shown as such', async (t) => {
      expectAway(t, http);
      const outcome = page.locator('#request-list .status');
      await page.route('**/users?*', (route) => route.abort('connectionreset'));
      await page.getByRole('button', { name: 'Refresh' }).click();
      await outcome.first().getByText('no response', { exact: true }).waitFor();
      const colour = await styleOf(page, '#dock-status', 'color');
      await page.unroute('**/users?*');
      await page.route('**/users?*', () => undefined, { times: 1 });
      const sent = page.waitForRequest('**/users?*');
      await page.getByRole('button', { name: 'Refresh' }).click();
      await sent;
      assert.notEqual(await styleOf(page, '#dock-status', 'color'), colour, 'a failure has a colour');
      await page.getByRole('button', { name: 'Refresh' }).click();
      await outcome.nth(1).getByText('cancelled', { exact: true }).waitFor();
      await outcome.first().getByText('200').waitFor();
    });

    await t.test('reading a user also shows a grpcurl line with the configured port', async () => {
      await showView(page, '/users/1');
      const line = `grpcurl -plaintext -d '{"id":1}' 127.0.0.1:50051 Users/GetUser`;
      await page.getByText(line).waitFor();
      const newest = page.locator('#request-list code').first();
      assert.equal(await newest.textContent(), await page.locator('#dock-line').textContent());
      await page.getByRole('button', { name: 'Copy this grpcurl command' }).click();
      await announced(page, 'Copied');
      assert.equal(await page.evaluate('navigator.clipboard.readText()'), line);
      await page.getByLabel('gRPC port').fill('6000');
      await page.keyboard.press('Enter');
      await page.getByText('127.0.0.1:6000 Users/GetUser').waitFor();
      const later = await page.context().newPage();
      await later.goto(`${http}/#/users/1`);
      await later.getByRole('heading', { name: 'Ada' }).waitFor();
      await later.getByRole('button', { name: 'Requests', exact: true }).click();
      await later.getByText('127.0.0.1:6000 Users/GetUser').waitFor();
      await later.close();
      await page.getByLabel('gRPC port').fill('none');
      await page.keyboard.press('Enter');
      await page.getByText('127.0.0.1:50051 Users/GetUser').waitFor();
    });

    await t.test('each action shows its curl line, which repeats the action', async (t) => {
      const form = page.getByRole('form', { name: 'Edit user' });
      await form.getByLabel('Name').fill(`Ada's "$HOME" \\ 👩🏽‍💻`);
      await form.getByRole('button', { name: 'Save' }).click();
      await announced(page, 'Saved');
      await page.locator('#dock-status', { hasText: '200' }).waitFor();
      const line = (await page.locator('#dock-line').textContent()) ?? '';
      assert.match(
        line,
        /^curl -i -X PATCH -H 'content-type: application\/merge-patch\+json' -H 'if-match: "1"' -d /,
      );
      if (!hasTool('curl')) return t.diagnostic('curl is not installed, so the line was not run');
      const again = await runTool('sh', ['-c', line]);
      assert.match(again.stdout, /^HTTP\/1.1 412 /);
      const anew = await runTool('sh', ['-c', line.replace('if-match: "1"', 'if-match: "2"')]);
      assert.match(anew.stdout, /^HTTP\/1.1 200 /);
      assert.deepEqual(await readUser(http, 1), { id: 1, name: `Ada's "$HOME" \\ 👩🏽‍💻` });
    });

    for (const [what, clipboard] of [
      ['without navigator.clipboard, which pages over plain HTTP lack', 'undefined'],
      [
        'if the browser rejects the use of the clipboard',
        "{ writeText: () => Promise.reject(Error('denied')) }",
      ],
    ]) {
      await t.test(`a button copies the curl line ${what}`, async () => {
        await page.evaluate(`
          document.querySelector('#toasts').replaceChildren();
          Object.defineProperty(navigator, 'clipboard', { value: ${clipboard}, configurable: true });
          document.oncopy = () => { window.copied = document.activeElement.value; }`);
        const line = await page.locator('#dock-line').textContent();
        await page.getByRole('button', { name: 'Copy the last request as a curl command' }).click();
        await announced(page, 'Copied');
        assert.equal(await page.evaluate('copied'), line);
        await page
          .getByRole('button', { name: 'Copy the last request' })
          .and(page.locator(':focus'))
          .waitFor();
        await page.evaluate('delete window.copied');
      });
    }
  });
});
