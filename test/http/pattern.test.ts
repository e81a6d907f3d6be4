import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parsePattern, type Segment } from '../../src/http/pattern.ts';

const literal = (text: string): Segment => ({ literal: text });
const parameter = (name: string): Segment => ({ parameter: name });

const parsed: readonly [source: string, segments: readonly Segment[]][] = [
  ['GET /', [literal('')]],
  ['GET /users', [literal('users')]],
  ['GET /users/{id}', [literal('users'), parameter('id')]],
  ['POST /users/{id}/posts', [literal('users'), parameter('id'), literal('posts')]],
  ['DELETE /{a}/{b}', [parameter('a'), parameter('b')]],
  ['GET /{_a1}', [parameter('_a1')]],
  ['GET /a.b-c~d', [literal('a.b-c~d')]],
  ['GET /é', [literal('é')]],
];

for (const [source, segments] of parsed) {
  test(`${source} is a pattern`, () => {
    const [method, template] = source.split(' ');
    assert.deepEqual(parsePattern(source), { method, template, segments });
  });
}

const refused: readonly [source: string, problem: string, offset: number][] = [
  ['', 'must begin with a method in capitals and a space', 0],
  ['/users', 'must begin with a method in capitals and a space', 0],
  ['get /users', 'must begin with a method in capitals and a space', 0],
  ['GET2 /users', 'must begin with a method in capitals and a space', 0],
  [' /users', 'must begin with a method in capitals and a space', 0],
  ['GET', 'must begin with a method in capitals and a space', 0],
  ['HEAD /users', 'HEAD is answered for every path', 0],
  ['OPTIONS /users', 'OPTIONS is answered for every path', 0],
  ['GET ', 'the path must begin with "/"', 4],
  ['GET users', 'the path must begin with "/"', 4],
  ['GET  /users', 'the path must begin with "/"', 4],
  ['GET *', 'the path must begin with "/"', 4],
  ['GET //', 'a segment is empty', 5],
  ['GET //users', 'a segment is empty', 5],
  ['GET /users/', 'a segment is empty', 11],
  ['GET /users//posts', 'a segment is empty', 11],
  ['GET /users/{id', 'a parameter must be a whole segment, as {name}', 11],
  ['GET /users/id}', 'a parameter must be a whole segment, as {name}', 11],
  ['GET /users/a{id}', 'a parameter must be a whole segment, as {name}', 11],
  ['GET /users/{id}a', 'a parameter must be a whole segment, as {name}', 11],
  ['GET /users/}id{', 'a parameter must be a whole segment, as {name}', 11],
  ['GET /users/{}', '"" is not a parameter name', 12],
  ['GET /users/{1}', '"1" is not a parameter name', 12],
  ['GET /users/{i-d}', '"i-d" is not a parameter name', 12],
  ['GET /users/{{id}}', '"{id}" is not a parameter name', 12],
  ['GET /users/{a}{b}', '"a}{b" is not a parameter name', 12],
  ['GET /users/{id}/posts/{id}', 'the parameter "id" stands twice', 23],
];

for (const [source, problem, offset] of refused) {
  test(`${JSON.stringify(source)} is refused, and the offset told`, () => {
    assert.throws(() => parsePattern(source), {
      name: 'SyntaxError',
      message: `pattern "${source}": ${problem} (at offset ${offset})`,
    });
  });
}
