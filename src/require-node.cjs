// Runs first: `npm start` loads it before main.ts, which an older Node.js cannot read; `main.js` imports it.
const { name, engines } = require('../package.json');

const oldestNode = Number(engines.node.slice('>='.length));

if (Number.parseInt(process.versions.node, 10) < oldestNode) {
  process.stderr.write(`${name}: needs Node.js ${oldestNode} or newer, this is ${process.version}\n`);
  process.exit(1);
}
