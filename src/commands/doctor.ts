import { type Config, optionRows } from '../config.ts';
import { messageOf } from '../domain/errors.ts';
import { tryPort } from '../service/ports.ts';
import { schemeOf } from '../storage/open.ts';
import { examineMode, type Finding, fail, ok, warn } from '../storage/tools.ts';
import { type Command, printResult } from './command-line.ts';
import { describeError, isInvalid, UsageError } from './errors.ts';
import { examineHeap, examineOpenFiles, examineStandbys, fileExaminations } from './examine.ts';
import { type Files, readFiles } from './files.ts';
import { optionsHelp, type ParsedConfig, parseConfig } from './settings.ts';

const help = `usage: users-service doctor [options]

Checks what the service needs to start with these options, and changes nothing.
Prints a line for each check: ok, warn or fail, and what to do. Run it as the
user of the service. Exit codes: 0 no problem, 3 a warning, 1 a failure, 2 wrong
usage.

`;

const testedNodes = [24, 26];
const inUse = ' is in use';

export const doctor: Command = {
  help: help + optionsHelp(),
  flags: optionRows.map(([flag]) => flag),
  async run({ env, stdout, nodeVersion }, { flags }) {
    const parsed = parseConfig(flags, env);
    const { config } = parsed;
    // Read once, because a named pipe cannot be read again.
    const files = await readFiles(parsed).catch((error: UsageError) => error);
    const examinations: readonly (() => Promise<Finding[]>)[] = [
      async () => [examineNode(nodeVersion)],
      () => examineOpenFiles(parsed),
      () => examineHeap(parsed),
      () => examineFiles(parsed, files),
      () => examineDatabase(config),
      () => examineStandbys(parsed).catch((error) => failed(error, '--read-database: ')),
      () => examinePorts(config),
    ];
    const levels = new Set<Finding['level']>();
    for (const examine of examinations) {
      for (const { level, what, remedy } of await examine().catch((error) => failed(error))) {
        await printResult(stdout, level, remedy === '' ? what : `${what}; ${remedy}`);
        levels.add(level);
      }
    }
    return levels.has('fail') ? 1 : levels.has('warn') ? 3 : 0;
  },
};

function examineNode(version: string): Finding {
  const isTested = testedNodes.includes(Number.parseInt(version.slice(1), 10));
  return isTested
    ? ok(`Node.js ${version}`)
    : warn(`Node.js ${version}`, `use ${testedNodes.join(' or ')}, with which the service is tested`);
}

async function examineFiles(parsed: ParsedConfig, files: Files | UsageError): Promise<Finding[]> {
  if (files instanceof UsageError) {
    return files.message.split('\n').map((problem) => fail(problem, 'correct the option or the file'));
  }
  const { public: folder, 'api-keys-file': keys, 'tls-key': key } = parsed.config;
  const paths = [folder, keys].filter((path) => path !== undefined);
  const findings = paths.map((path) => ok(`${path} can be read`));
  for (const examine of fileExaminations) findings.push(...(await examine(parsed, files)));
  return key === undefined ? findings : [...findings, examineMode(key)];
}

async function examineDatabase(config: Config): Promise<Finding[]> {
  const { database, workers: processes, 'read-database': standbys = '', 'changes-kept': kept } = config;
  const options = { processes, hasStandbys: standbys !== '', hasFeed: Boolean(kept) };
  return (await schemeOf(database)?.persistent?.examine(database, options)) ?? [];
}

/** The reason why something could not be examined. */
function failed(error: unknown, option = ''): Finding[] {
  const advice = isInvalid(error) ? 'correct the URL' : 'remove this cause, and run doctor again';
  return [fail(option + describeError(error), advice)];
}

async function examinePorts({ host, port, 'grpc-port': grpcPort }: Config): Promise<Finding[]> {
  const examine = async (option: 'port' | 'grpcPort', number: number): Promise<Finding> => {
    const name = option === 'port' ? 'HTTP port' : 'gRPC port';
    try {
      await tryPort(option, host, number);
      return ok(number === 0 ? `${name}: any free one` : `${name}: ${host}:${number} is free`);
    } catch (error) {
      const what = `${name}: ${messageOf(error)}`;
      return what.endsWith(inUse)
        ? warn(what, 'choose another port, or stop the program there')
        : fail(what, 'choose another address or port');
    }
  };
  const http = await examine('port', port);
  const findings = grpcPort === false ? [http] : [http, await examine('grpcPort', grpcPort)];
  // A service has both of its ports or neither, so a free port shows that another program uses the other one.
  const mayRun = !findings.some(({ what }) => what.endsWith(' is free'));
  return findings.map((one) =>
    mayRun && one.what.endsWith(inUse) ? ok(`${one.what}, which is right only while this service runs`) : one,
  );
}
