// `npm start` and the systemd unit load it before main.ts, which an older Node.js cannot read; `main.js` imports it.
// Node.js 12 of older Linux distributions must be able to read it.
const { name, engines } = require('../package.json');

const oldest = engines.node.slice('>='.length);
const [oldestMajor, oldestMinor] = oldest.split('.').map(Number);
const [major, minor] = process.versions.node.split('.').map(Number);

if (major < oldestMajor || (major === oldestMajor && minor < oldestMinor)) {
  process.stderr.write(`${name}: needs Node.js ${oldest} or newer, this is ${process.version}\n`);
  process.exit(1);
}

const { existsSync, mkdirSync } = require('node:fs');
const { enableCompileCache } = require('node:module');
const { HOME: home = process.env.USERPROFILE } = process.env;
// Compiling the modules takes a quarter of a start, and removing the types of main.ts another quarter. Without a home
// directory, nothing is cached: any user of the machine could put code for us to run into the shared folder of
// temporary files.
if (home) {
  const cache = `${home}/.cache/users-service`;
  try {
    // Node.js would also create the home, or try for ever if that is impossible, as in /proc. With some umasks, new
    // folders would be open to other users, who could put code into them.
    for (const folder of [`${home}/.cache`, cache]) if (!existsSync(folder)) mkdirSync(folder, 0o700);
    enableCompileCache(cache);
  } catch {
    // Without such a folder, only the start is slower.
  }
}
