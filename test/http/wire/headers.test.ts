import { head, post } from '../../kit/wire.ts';
import { ends, goesOn, testWire } from './table.ts';

const get = 'GET /health HTTP/1.1\r\n';
const withHost = (...lines: readonly string[]) => `${get}Host: x\r\n${lines.join('\r\n')}\r\n\r\n`;
const hostOf = (value: string) => `${get}Host: ${value}\r\n\r\n`;
/** Lines of a request that waits for 100 Continue before it sends a body of two bytes. */
const expecting = ['Expect: 100-continue', 'Content-Length: 2'];
const waiting = post('/echo', '{}', 'Expect: 100-continue');
const many = (count: number) => Array.from({ length: count }, (_, i) => `a${i}: b`);

testWire('headers', {
  'Host (3.2)': [
    goesOn('a name', hostOf('example.com'), 200),
    goesOn('a name and a port', hostOf('example.com:8080'), 200),
    goesOn('an empty port', hostOf('example.com:'), 200),
    goesOn('an IPv4 address', hostOf('127.0.0.1:80'), 200),
    goesOn('an IPv6 address', hostOf('[::1]:80'), 200),
    goesOn('an encoded character', hostOf('ex%61mple'), 200),
    ends('none', `${get}\r\n`, 400),
    ends('twice, different', `${get}Host: x\r\nHost: y\r\n\r\n`, 400),
    ends('two equal lines', `${get}Host: x\r\nHost: x\r\n\r\n`, 400),
    ends('two lines, the second in upper case', `${get}Host: x\r\nHOST: x\r\n\r\n`, 400),
    ends('empty', `${get}Host:\r\n\r\n`, 400),
    ends('only spaces', `${get}Host: \t \r\n\r\n`, 400),
    ends('a list', hostOf('a, b'), 400),
    ends('a user name', hostOf('me@example.com'), 400),
    ends('a path', hostOf('example.com/path'), 400),
    ends('a query', hostOf('example.com?a'), 400),
    ends('a scheme', hostOf('http://example.com'), 400),
    ends('a space inside', hostOf('a b'), 400),
    ends('a port that is not a number', hostOf('x:80a'), 400),
    ends('two ports', hostOf('x:80:80'), 400),
    ends('an IPv6 address without brackets', hostOf('::1'), 400),
    ends('an unclosed bracket', hostOf('[::1'), 400),
    ends('quotes', hostOf('"x"'), 400),
    ends('raw UTF-8', hostOf('\xc3\xa9'), 400),
    ends('only in the target', 'GET http://x/health HTTP/1.1\r\n\r\n', 400),
  ],

  'syntax (5)': [
    goesOn('no space after the colon', withHost('a:b'), 200),
    goesOn('a tab and spaces around the value', withHost('a:\t b \t'), 200),
    goesOn('no value', withHost('a:'), 200),
    goesOn('bytes beyond ASCII in a value', withHost('a: \xc3\xa9'), 200),
    goesOn('names as long as Host, twice', withHost('from: a', 'from: b'), 200),
    goesOn('a name as long as Transfer-Encoding', withHost('x-forwarded-proto: http'), 200),
    goesOn('__proto__ as a name', withHost('__proto__: x', 'constructor: y'), 200),
    ends('a space before the colon (5.1)', withHost('a : b'), 400),
    ends('a tab before the colon', withHost('a\t: b'), 400),
    ends('a space before the colon of Host', `${get}Host : x\r\n\r\n`, 400),
    ends('a folded line (5.2)', withHost('a: b', ' c'), 400),
    ends('a line folded by a tab', withHost('a: b', '\tc'), 400),
    ends('a space before the first line (2.2)', `${get} Host: x\r\n\r\n`, 400),
    ends('a line of spaces before the first line', `${get} \r\nHost: x\r\n\r\n`, 400),
    ends('no colon', withHost('ab'), 400),
    ends('no name', withHost(': b'), 400),
    ends('a bracket in a name', withHost('a[b]: c'), 400),
    ends('a space in a name', withHost('a b: c'), 400),
    ends('bytes beyond ASCII in a name', withHost('\xc3\xa9: b'), 400),
    ends('U+0000 in a name', withHost('a\0: b'), 400),
    ends('U+0000 in a value (RFC 9110, 5.5)', withHost('a: b\0c'), 400),
    ends('a control character in a value', withHost('a: b\x07c'), 400),
    ends('DEL in a value', withHost('a: b\x7fc'), 400),
    ends('a bare CR in a value', withHost('a: b\rc'), 400),
    ends('a bare LF after a line', `${get}Host: x\na: b\r\n\r\n`, 400),
    ends('a bare LF at the end', `${get}Host: x\r\n\n`, 400),
  ],

  'floods (RFC 6585, 5)': [
    goesOn('100 headers', withHost(...many(99)), 200),
    ends('101 headers', withHost(...many(100)), 431),
    ends('2,000 headers', withHost(...many(2_000)), 431),
    ends('10,000 headers', withHost(...many(10_000)), 431),
    ends('2,000 headers before the key', head('GET /private', ...many(2_000), 'x-api-key: secret'), 431),
    goesOn('15 KB in one header', withHost(`a: ${'b'.repeat(15_000)}`), 200),
    ends('20 KB in one header', withHost(`a: ${'b'.repeat(20_000)}`), 431),
    ends('100 KB in one header', withHost(`a: ${'b'.repeat(100_000)}`), 431),
    ends('5 MB in one header', withHost(`a: ${'b'.repeat(5_000_000)}`), 431),
    ends('20 KB in one name', withHost(`${'a'.repeat(20_000)}: b`), 431),
    ends('64 KB of cookies', withHost(`Cookie: ${'a=b; '.repeat(13_000)}`), 431),
    ends('20 KB in a later request', head('GET /health') + withHost(`a: ${'b'.repeat(20_000)}`), [200, 431]),
    ends('2,000 headers on a connection in use', head('GET /health') + withHost(...many(2_000)), [200, 431]),
  ],

  'Connection and Upgrade': [
    ends('Connection: close (9.6)', withHost('Connection: close'), 200),
    ends('Connection: close among other options', withHost('Connection: foo, Close'), 200),
    goesOn('Connection: keep-alive', withHost('Connection: keep-alive'), 200),
    ends('Connection: close on a rejected request', head('GET /nowhere', 'Connection: close'), 404),
    goesOn('an upgrade to WebSocket is ignored', withHost('Connection: Upgrade', 'Upgrade: websocket'), 200),
    goesOn('an upgrade to HTTP/2 is ignored', withHost('Connection: Upgrade', 'Upgrade: h2c'), 200),
    goesOn('an upgrade to foo/1 is ignored', withHost('Connection: Upgrade', 'Upgrade: foo/1'), 200),
    goesOn('an upgrade that is missing in Connection is ignored', withHost('Upgrade: websocket'), 200),
    goesOn(
      'an upgrade of a POST is ignored, and its body is read',
      post('/echo', '{}', 'Connection: Upgrade', 'Upgrade: websocket'),
      200,
    ),
    ends(
      'an upgrade from HTTP/1.0 (RFC 9110, 7.8)',
      'GET /health HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
      200,
    ),
  ],

  'Expect (RFC 9110, 10.1.1)': [
    goesOn('100 Continue is sent before the body', waiting, [100, 200]),
    goesOn('mixed case', post('/echo', '{}', 'Expect: 100-Continue'), [100, 200]),
    ends('100-continue from HTTP/1.0 is ignored', waiting.replace('1.1', '1.0'), 200),
    ends('an unknown one from HTTP/1.0 is ignored', 'GET /health HTTP/1.0\r\nExpect: foo\r\n\r\n', 200),
    ends('an unknown expectation', withHost('Expect: 200-ok'), 417),
    ends('an unknown expectation after a known one', withHost('Expect: 100-continue, foo'), 417),
    ends('the request after an unknown one is ignored', withHost('Expect: foo') + head('GET /health'), 417),
    ends('a request without a body gets no 100 Continue', withHost('Expect: 100-continue'), 200),
    ends(
      'a length beyond the limit gets no 100 Continue',
      head('POST /echo', 'Content-Type: application/json', 'Expect: 100-continue', 'Content-Length: 2000000'),
      413,
    ),
    ends(
      'a wrong media type gets no 100 Continue',
      head('POST /echo', 'Content-Type: text/plain', ...expecting),
      415,
    ),
    ends('a missing key gets no 100 Continue', head('GET /private', ...expecting), 401),
    ends('a wrong method gets no 100 Continue', head('POST /health', ...expecting), 405),
    ends('an unknown path gets no 100 Continue', head('POST /nowhere', ...expecting), 404),
    ends('a malformed head gets no 100 Continue', `${get}${expecting.join('\r\n')}\r\n\r\n`, 400),
  ],

  'repeated and other headers': [
    goesOn(
      'two keys, the second of which is valid',
      head('GET /private', 'x-api-key: a', 'x-api-key: secret'),
      401,
    ),
    goesOn('two If-Match lines', post('/echo', '{}', 'If-Match: "1"', 'If-Match: "2"'), 200),
    goesOn('malformed cookies', withHost('Cookie: a=b', 'Cookie: =;;;=', 'Cookie:'), 200),
    goesOn('an Accept without a supported type', withHost('Accept: application/x-nonsense'), 200),
  ],
});
