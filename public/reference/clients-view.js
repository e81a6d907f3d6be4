// @ts-check
import { apiUrl } from '../console/api/base.js';
import { el } from '../console/ui/dom.js';
import { codeBlock } from './code-block.js';

/** How to generate clients from the descriptions that this service serves. */
export function clientsView() {
  const openApi = apiUrl('openapi.json').href;
  const proto = apiUrl('users.proto').href;
  return [
    el('p', {}, 'Types for ', el('code', {}, 'openapi-fetch'), ' in TypeScript:'),
    codeBlock(`npx -p openapi-typescript -p typescript@5 openapi-typescript ${openApi} -o users.d.ts`),
    el('p', {}, 'A client in Go, Java, Python and other languages, by openapi-generator:'),
    codeBlock(`npx @openapitools/openapi-generator-cli generate -g python -i ${openApi} -o client`),
    el(
      'p',
      {},
      'The gRPC contract, ',
      el('a', { href: proto, download: '' }, 'users.proto'),
      ', and a client:',
    ),
    codeBlock(
      [
        `curl -O ${proto}`,
        'pip install grpcio grpcio-tools',
        'python -m grpc_tools.protoc -I. --python_out=. --grpc_python_out=. users.proto',
      ].join('\n'),
    ),
    el(
      'p',
      { class: 'muted small' },
      'proto/README.md in the package has gRPC clients in Go, Java, Python and Node.js.',
    ),
  ];
}
