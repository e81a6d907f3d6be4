// `npm start` and the systemd unit load it before main.ts, which an older Node.js cannot read; `main.js` imports it.
const { name, engines } = require('../package.json');

const oldest = engines.node.slice('>='.length);
const [oldestMajor, oldestMinor] = oldest.split('.').map(Number);
const [major, minor] = process.versions.node.split('.').map(Number);

if (major < oldestMajor || (major === oldestMajor && minor < oldestMinor)) {
  process.stderr.write(`${name}: needs Node.js ${oldest} or newer, this is ${process.version}\n`);
  process.exit(1);
}
