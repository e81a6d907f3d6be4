import assert from 'node:assert/strict';
import { test } from 'node:test';
import { contentType } from '../../src/http/content-type.ts';

const cases: readonly [fileName: string, want: string][] = [
  ['index.html', 'text/html; charset=utf-8'],
  ['INDEX.HTML', 'text/html; charset=utf-8'],
  ['docs/a.b.css', 'text/css; charset=utf-8'],
  ['app.mjs', 'text/javascript; charset=utf-8'],
  ['openapi.json', 'application/json; charset=utf-8'],
  ['icon.svg', 'image/svg+xml'],
  ['font.woff2', 'font/woff2'],
  ['README', 'application/octet-stream'],
  ['html', 'application/octet-stream'],
  ['a.html.', 'application/octet-stream'],
  ['a.exe', 'application/octet-stream'],
  ['a.constructor', 'application/octet-stream'],
  ['a.__proto__', 'application/octet-stream'],
  ['a.js.br', 'application/octet-stream'],
];

for (const [fileName, want] of cases) {
  test(`${fileName} is ${want}`, () => assert.equal(contentType(fileName), want));
}
