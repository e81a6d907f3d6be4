import { head, post } from '../../kit/wire.ts';
import { ends, goesOn, testWire } from './table.ts';

const json = 'Content-Type: application/json';
const five = 'Content-Length: 5';
const smuggled = head('GET /info', 'x-smuggled: yes');
const twice = (first: string) => first + smuggled;
const declared = (length: string, body = '{}') =>
  head('POST /echo', json, `Content-Length: ${length}`) + body;
const coded = (coding: string, body = '2\r\n{}\r\n0\r\n\r\n') =>
  head('POST /echo', json, `Transfer-Encoding: ${coding}`) + body;
const chunked = (body: string) => coded('chunked', body);
/** A request with these header lines and a body in chunks, which is empty. */
const empty = (...lines: readonly string[]) => `${head('POST /echo', json, ...lines)}0\r\n\r\n`;
const both = (length: string, coding: string) => [
  `Content-Length: ${length}`,
  `Transfer-Encoding: ${coding}`,
];

testWire('bodies', {
  'Content-Length (6.2, 6.3; RFC 9110, 8.6)': [
    goesOn('exact', declared('2'), 200),
    goesOn('spaces around the value', declared('  2 '), 200),
    goesOn('a tab before the value', declared('\t2'), 200),
    goesOn('leading zeros are decimal', declared('0000000010', '"12345678"'), 200),
    goesOn('zero is an empty body', declared('0', ''), 400),
    goesOn('a missing header is an empty body', head('POST /echo', json), 400),
    goesOn('two zeros are zero', declared('00', ''), 400),
    goesOn('an underscore makes it another header', head('POST /echo', json, 'Content_Length: 2'), 400),
    ends('a plus', declared('+2'), 400),
    ends('a minus', declared('-1'), 400),
    ends('minus zero', declared('-0'), 400),
    ends('hexadecimal', declared('0x2'), 400),
    ends('octal', declared('0o2'), 400),
    ends('an underscore', declared('1_0'), 400),
    ends('a letter', declared('2a'), 400),
    ends('only letters', declared('abc'), 400),
    ends('nothing', declared(''), 400),
    ends('a space within', declared('1 0'), 400),
    ends('a list, different', declared('2, 3'), 400),
    ends('a list of equal values', declared('2, 2'), 400),
    ends('beyond 64 bits', declared('99999999999999999999'), 400),
    ends('beyond the range of exact numbers', declared('9007199254740993'), 413),
    ends('huge without a body', declared('999999999', ''), 413),
    ends('twice, different', `${head('POST /echo', json, 'Content-Length: 2', 'Content-Length: 3')}{}`, 400),
    ends('two equal lines', `${head('POST /echo', json, 'Content-Length: 2', 'Content-Length: 2')}{}`, 400),
    ends('a space before the colon', `${head('POST /echo', json, 'Content-Length : 2')}{}`, 400),
    ends('bytes after an empty body', declared('0', 'X'), [400, 501]),
  ],

  'Transfer-Encoding (6.1, 7)': [
    goesOn('chunked', coded('chunked'), 200),
    goesOn('mixed case', coded('Chunked'), 200),
    goesOn('a tab before the value', coded('\tchunked'), 200),
    goesOn('a space after the value', coded('chunked '), 200),
    goesOn('the name in upper case', coded('chunked').replace('Transfer-E', 'TRANSFER-E'), 200),
    goesOn(
      'an underscore makes it another header',
      `${head('POST /echo', json, 'Transfer_Encoding: chunked', 'Content-Length: 2')}{}`,
      200,
    ),
    ends('another coding before chunked', coded('gzip, chunked'), 501),
    ends('an empty coding before chunked', coded(', chunked'), 501),
    ends('only another coding', coded('gzip', ''), 501),
    ends('identity', coded('identity', ''), 501),
    ends('a misspelled chunked', coded('xchunked', ''), 501),
    ends('chunked in quotes', coded('"chunked"', ''), 501),
    ends('chunked with a parameter', coded('chunked;a=b', ''), 501),
    ends('another coding after chunked', coded('chunked, gzip'), 400),
    ends('chunked twice', coded('chunked, chunked'), 400),
    ends('an empty coding after chunked', coded('chunked,'), 400),
    ends('no value', coded(''), 400),
    ends('a vertical tab', coded('\x0bchunked'), 400),
    ends('a form feed', coded('\x0cchunked'), 400),
    ends('U+0000', coded('chunked\0'), 400),
    ends('two lines', empty('Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'), 400),
    ends(
      'two lines, the second with identity',
      empty('Transfer-Encoding: chunked', 'Transfer-Encoding: identity'),
      400,
    ),
    ends('a folded line', empty('Transfer-Encoding:\r\n chunked'), 400),
    ends('a space before the colon', empty('Transfer-Encoding : chunked'), 400),
    ends('from HTTP/1.0', coded('chunked').replace('1.1', '1.0'), 400),
    ends(
      'from HTTP/1.0 with a length',
      `${head('POST /echo', json, 'Transfer-Encoding: chunked', 'Content-Length: 2').replace('1.1', '1.0')}{}`,
      400,
    ),
  ],

  'Content-Length with Transfer-Encoding (6.3)': [
    ends('length first', empty(...both('5', 'chunked')), 400),
    ends('coding first', empty(...both('5', 'chunked').reverse()), 400),
    ends('an unknown coding', `${head('POST /echo', json, ...both('2', 'xchunked').reverse())}{}`, 400),
    ends('identity', `${head('POST /echo', json, ...both('2', 'identity').reverse())}{}`, 400),
    ends('on OPTIONS', `${head('OPTIONS /users', ...both('5', 'chunked').reverse())}0\r\n\r\n`, 400),
    ends('a request after the chunks', empty(...both('6', 'chunked')) + smuggled, 400),
    ends(
      'a request within the length',
      head('POST /echo', json, `Content-Length: ${smuggled.length}`, 'Transfer-Encoding: chunked') + smuggled,
      400,
    ),
  ],

  'chunks (7.1)': [
    goesOn('several', chunked('1\r\n[\r\n1\r\n]\r\n0\r\n\r\n'), 200),
    goesOn('upper-case digits', chunked('A\r\n"12345678"\r\n0\r\n\r\n'), 200),
    goesOn('leading zeros', chunked('0002\r\n{}\r\n000\r\n\r\n'), 200),
    goesOn('none', chunked('0\r\n\r\n'), 400),
    goesOn('an extension (7.1.1)', chunked('2;a=b\r\n{}\r\n0\r\n\r\n'), 200),
    goesOn('an extension in quotes', chunked('2;a="b;c"\r\n{}\r\n0\r\n\r\n'), 200),
    ends('an extension of 20 KB', chunked(`2;${'a'.repeat(20_000)}\r\n{}\r\n0\r\n\r\n`), 413),
    ends('an extension without a name', chunked('2;\r\n{}\r\n0\r\n\r\n'), 400),
    ends('an extension that is not a token', chunked('2;a[=b\r\n{}\r\n0\r\n\r\n'), 400),
    ends('U+0000 in an extension', chunked('2;\0\r\n{}\r\n0\r\n\r\n'), 400),
    ends('a bare CR in an extension', chunked('2;a\rb\r\n{}\r\n0\r\n\r\n'), 400),
    ends('a bare LF in an extension', chunked('2;a\n{}\r\n0\r\n\r\n'), 400),
    ends('a prefix', chunked('0x2\r\n{}\r\n0\r\n\r\n'), 400),
    ends('a plus', chunked('+2\r\n{}\r\n0\r\n\r\n'), 400),
    ends('a minus', chunked('-2\r\n{}\r\n0\r\n\r\n'), 400),
    ends('an underscore', chunked('1_0\r\n{}\r\n0\r\n\r\n'), 400),
    ends('a space before the size', chunked(' 2\r\n{}\r\n0\r\n\r\n'), 400),
    ends('a space after the size', chunked('2 \r\n{}\r\n0\r\n\r\n'), 400),
    ends('no digits', chunked('zz\r\n{}\r\n0\r\n\r\n'), 400),
    ends('no size', chunked('\r\n{}\r\n0\r\n\r\n'), 400),
    ends('beyond 64 bits', chunked('FFFFFFFFFFFFFFFFF\r\n{}\r\n0\r\n\r\n'), 400),
    ends('beyond the limit', chunked(`FFFFFFFFFFFFFFF\r\n${'a'.repeat(1_200_000)}`), 413),
    ends('no line break after the data', chunked('2\r\n{}0\r\n\r\n'), 400),
    ends('more data than the size', chunked('2\r\n{}!!\r\n0\r\n\r\n'), 400),
    ends('bare LFs', chunked('2\n{}\n0\n\n'), 400),
    ends('a bare LF after the data', chunked('2\r\n{}\n0\r\n\r\n'), 400),
    ends('a bare LF at the end', chunked('2\r\n{}\r\n0\r\n\n'), 400),
    ends('a bare CR after the size', chunked('2\r{}\r\n0\r\n\r\n'), 400),
    ends('a request after a wrong size', chunked(`+0\r\n\r\n${smuggled}`), 400),
  ],

  'trailers (7.1.2) have no effect': [
    goesOn('one', chunked('2\r\n{}\r\n0\r\nX-Checksum: a\r\n\r\n'), 200),
    goesOn('__proto__', chunked('2\r\n{}\r\n0\r\n__proto__: a\r\n\r\n'), 200),
    ends('Content-Length', chunked('2\r\n{}\r\n0\r\nContent-Length: 50\r\n\r\n'), 400),
    ends('Transfer-Encoding', chunked('2\r\n{}\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n'), 400),
    goesOn('Host', chunked('2\r\n{}\r\n0\r\nHost: evil.example\r\n\r\n'), 200),
    goesOn('Content-Type', chunked('2\r\n{}\r\n0\r\nContent-Type: text/evil\r\n\r\n'), 200),
    ends('20 KB', chunked(`2\r\n{}\r\n0\r\nX: ${'y'.repeat(20_000)}\r\n\r\n`), 431),
    ends('malformed', chunked('2\r\n{}\r\n0\r\nX : y\r\n\r\n'), 400),
  ],

  'the next request is executed or ignored': [
    goesOn('executed after a request without a body', twice(head('GET /health')), [200, 200]),
    goesOn('executed after a body', twice(declared('2')), [200, 200]),
    goesOn('executed after chunks', twice(coded('chunked')), [200, 200]),
    goesOn('executed after a body of GET', twice(`${head('GET /health', five)}hello`), [200, 200]),
    goesOn(
      'executed after a body of DELETE',
      twice(`${head('DELETE /users/1', five, json)}hello`),
      [404, 200],
    ),
    goesOn('executed after a body of OPTIONS', twice(`${head('OPTIONS /users', five)}hello`), [204, 200]),
    goesOn(
      'executed after a body like a request',
      twice(declared(String(smuggled.length), smuggled)),
      [400, 200],
    ),
    goesOn(
      'executed after a body that followed 100 Continue',
      twice(post('/echo', '{}', 'Expect: 100-continue')),
      [100, 200, 200],
    ),
    goesOn('executed after a rejected body of known length', twice(post('/echo', '{', 'X: y')), [400, 200]),
    ends(
      'ignored after a body that got no 100 Continue',
      twice(head('POST /health', 'Expect: 100-continue', 'Content-Length: 60')),
      405,
    ),
    ends('ignored after a body that is too long', twice(declared('2000000', '')), 413),
    ends(
      'ignored after chunks that the handler does not read',
      twice(`${head('POST /health', 'Transfer-Encoding: chunked')}0\r\n\r\n`),
      405,
    ),
    ends('ignored after an unknown coding', twice(coded('gzip, chunked')), 501),
    ends('ignored after a missing Host', twice('GET /health HTTP/1.1\r\n\r\n'), 400),
    ends('ignored after Connection: close', twice(head('GET /health', 'Connection: close')), 200),
    ends('malformed after a valid one', `${head('GET /health')}FOO BAR\r\n\r\n`, [200, 501]),
    ends(
      'malformed after three valid ones',
      `${head('GET /health').repeat(3)}GET / HTTP/1.1\r\na : b\r\n\r\n`,
      [200, 200, 200, 400],
    ),
  ],
});
