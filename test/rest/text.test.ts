import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { getUser, usersClient } from '../kit/grpc.ts';
import { send } from '../support/client.ts';
import { startService } from '../support/service.ts';

// Texts that must be returned byte for byte, without any normalisation, trimming or escaping.
const texts: readonly [what: string, text: string][] = [
  ['Arabic', 'محمد بن عبد الله'],
  ['Arabic with marks', 'مُحَمَّد'],
  ['Hebrew', 'דָּוִד'],
  ['Chinese', '王小明'],
  ['a rare Han character', '𠮷野家'],
  ['Japanese', 'ガギグ ｶﾞｷﾞｸﾞ'],
  ['Korean, composed and not', '한국 한국'],
  ['Thai', 'สมชาย ใจดี'],
  ['Devanagari', 'श्री क्षेत्र'],
  ['Tamil', 'தமிழ் நாடு'],
  ['Georgian and Armenian', 'გიორგი Արմեն'],
  ['Cherokee and Adlam', 'ᏣᎳᎩ 𞤀𞤣𞤤𞤢𞤥'],
  ['Cyrillic and Greek', 'Ёлка Ὀδυσσεύς'],
  ['Vietnamese', 'Nguyễn Thị Mai'],
  ['Turkish dotless i', 'Iıİi'],
  ['sharp s and ligatures', 'Straße ﬁﬀ'],
  ['composed e with acute', 'caf\u00e9'],
  ['decomposed e with acute', 'cafe\u0301'],
  ['stacked combining marks', `Z${'\u0351\u0352\u0353'.repeat(20)}`],
  ['an emoji', '😀'],
  ['a family of joined emoji', '👨‍👩‍👧‍👦'],
  ['a flag and a skin tone', '🇩🇪👍🏽'],
  ['a keycap and a variation', '1️⃣ ☺︎'],
  ['direction marks', 'a\u200eb\u202ec\u2066d'],
  ['zero-width joiners and spaces', 'a\u200bb\u200dc\ufeffd'],
  ['a no-break space inside', 'a\u00a0b'],
  ['spaces around', '  Ann  '],
  ['line separators that are not controls', 'a\u2028b\u2029c'],
  ['noncharacters', 'a\uffff\ufdd0\u{10ffff}b'],
  ['a private character', '\ue000\u{f0000}'],
  ['quotes and backslashes', '"\\\'`$x%00%s'],
  ['markup', '<script>alert("&amp;")</script>'],
  ['SQL', "Robert'); DROP TABLE users;--"],
  ['words of JavaScript', 'constructor __proto__ null'],
  ['200 characters of two units', '😀'.repeat(200)],
  ['200 characters of three bytes', '王'.repeat(200)],
];
describe('the texts of users and posts', async () => {
  const { http, grpc } = await startService({ after }, { grpcPort: 0 });
  const client = usersClient({ after }, grpc);
  for (const [what, name] of texts) {
    it(`both APIs return a name with ${what} byte for byte`, async () => {
      const created = await send(http, 'POST /users', { json: { name } });
      const { id } = created.json as { id: number };
      assert.deepEqual([created.status, created.json], [201, { id, name }]);
      const escaped = [...name].map((character) => asEscapes(character)).join('');
      const headers = { 'content-type': 'application/json' };
      const put = await send(http, `PUT /users/${id}`, { body: `{"name":"${escaped}"}`, headers });
      assert.equal(put.headers.etag, '"1"', 'the name with escapes is the same name');
      assert.deepEqual((await send(http, `GET /users?id=${id}`)).json, [{ id, name }]);
      assert.deepEqual((await send(http, `GET /users/${id}`)).json, { id, name });
      const { user } = await getUser(client, id);
      assert.deepEqual(user, { id, name });

      const post = { title: name, body: `\t${name}\n` };
      await send(http, `POST /users/${id}/posts`, { json: post });
      const posts = (await send(http, `GET /users/${id}/posts`)).json as { id: number }[];
      assert.deepEqual(posts, [{ id: posts[0]?.id, userId: id, ...post }]);
    });
  }
});

function asEscapes(character: string): string {
  return [...Array(character.length).keys()]
    .map((i) => `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`)
    .join('');
}
