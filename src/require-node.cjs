// `npm start` loads this file before main.ts, which imports it too: an older Node.js cannot read TypeScript.
const { name, engines } = require('../package.json');

const oldestNode = Number(engines.node.slice('>='.length));

if (Number.parseInt(process.versions.node, 10) < oldestNode) {
  process.stderr.write(`${name}: needs Node.js ${oldestNode} or newer, this is ${process.version}\n`);
  process.exit(1);
}
