import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { postBodies } from '../../src/domain/post.ts';
import { refuses, show } from './refuses.ts';

describe('the parser of a draft', () => {
  for (const [body, draft] of [
    [{ title: 'title' }, { title: 'title', body: '' }],
    [
      { title: 'title', body: '' },
      { title: 'title', body: '' },
    ],
    [
      { title: 'title', body: ' ' },
      { title: 'title', body: ' ' },
    ],
    [
      { title: 'title', body: '\tline 1\nline 2' },
      { title: 'title', body: '\tline 1\nline 2' },
    ],
    [{ title: '😀'.repeat(200) }, { title: '😀'.repeat(200), body: '' }],
    [
      { title: 'title', body: '😀'.repeat(10_000) },
      { title: 'title', body: '😀'.repeat(10_000) },
    ],
  ]) {
    it(`reads ${show(body)}`, () => assert.deepEqual(postBodies.parseDraft(body), draft));
  }

  for (const [body, culprit] of [
    [undefined, 'the body'],
    [null, 'the body'],
    [[], 'the body'],
    ['title', 'the body'],
    [{}, 'title'],
    [{ body: 'body' }, 'title'],
    [{ title: null }, 'title'],
    [{ title: 1 }, 'title'],
    [{ title: ' ' }, 'title'],
    [{ title: 'a\nb' }, 'title'],
    [{ title: 'x'.repeat(201) }, 'title'],
    [{ title: 'title', body: null }, 'body'],
    [{ title: 'title', body: 'a\r\nb' }, 'body'],
    [{ title: 'title', body: 'a\u0000b' }, 'body'],
    [{ title: 'title', body: 'x'.repeat(10_001) }, 'body'],
    [{ title: 'title', id: 1 }, '"id"'],
    [{ title: 'title', userId: 1 }, '"userId"'],
    [JSON.parse('{"title":"title","__proto__":{}}'), '"__proto__"'],
  ]) {
    it(`rejects ${culprit} in ${show(body)}`, () => refuses(() => postBodies.parseDraft(body), culprit));
  }
});
