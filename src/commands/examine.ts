import { readFile } from 'node:fs/promises';
import { certificatesOf, fittingConnections } from '../service/service.ts';
import { schemeOf } from '../storage/open.ts';
import { type Finding, fail, ok, warn } from '../storage/tools.ts';
import type { Observe } from '../telemetry/events.ts';
import type { Files } from './files.ts';
import type { ParsedConfig } from './settings.ts';

const dayMs = 24 * 60 * 60 * 1_000;
const fewDaysMs = 14 * dayMs;
export const fileExaminations = [examineCertificates, examineKeys];
const startExaminations = [...fileExaminations, examineOpenFiles, examineSharing, unreachableStandbys];

/** Logs a warning for each problem that does not prevent a start, such as a certificate that has ended or ends soon. */
export async function reportProblems(
  when: 'start' | 'reload',
  parsed: ParsedConfig,
  files: Files,
  observe: Observe,
): Promise<void> {
  for (const examine of when === 'start' ? startExaminations : fileExaminations) {
    try {
      for (const { level, what, remedy } of await examine(parsed, files)) {
        if (level !== 'ok') observe({ type: 'warning', message: `${what}; ${remedy}` });
      }
    } catch (cause) {
      // The service works without these warnings.
      observe({ type: 'failure', where: 'process', cause });
    }
  }
}

async function examineCertificates({ settings }: ParsedConfig, { tls }: Files): Promise<Finding[]> {
  if (tls === undefined) return [];
  return certificatesOf(tls).map(({ subject, subjectAltName = 'no name', validFromDate, validToDate }) => {
    // A certificate may have no subject, only alternative names.
    const owner = (subject || subjectAltName).replaceAll('\n', ', ');
    const name = `${settings['tls-cert'].text}: the certificate of ${owner}`;
    const leftMs = validToDate.getTime() - Date.now();
    if (validFromDate.getTime() > Date.now()) {
      return fail(`${name} is not valid before ${validFromDate.toISOString()}`, 'set the clock, or wait');
    }
    if (leftMs < 0)
      return fail(`${name} ended at ${validToDate.toISOString()}`, 'renew it, then send SIGHUP');
    const text = `${name} is valid for ${Math.floor(leftMs / dayMs)} more days`;
    // Certificates for a few days are usually renewed after two thirds of them.
    const isSoon = leftMs < Math.min(fewDaysMs, (validToDate.getTime() - validFromDate.getTime()) / 3);
    return isSoon ? warn(text, 'renew it, then send SIGHUP') : ok(text);
  });
}

/** A file without keys does not prevent a start, because a SIGHUP may add them. */
async function examineKeys({ settings }: ParsedConfig, { apiKeys }: Files): Promise<Finding[]> {
  const { text } = settings['api-keys-file'];
  if (text === '' || apiKeys.length > 0) return [];
  return [warn(`${text} has no API key, so requests that need one are 401`, 'add one, then send SIGHUP')];
}

/** Beyond the limit, Node.js closes new connections without an event. Only Linux has the file that shows the limit. */
export async function examineOpenFiles({ config }: ParsedConfig): Promise<Finding[]> {
  const limits = await readFile('/proc/self/limits', 'utf8').catch(() => '');
  const [, limit] = /^Max open files +(\d+)/m.exec(limits) ?? [];
  if (limit === undefined) return [];
  // 0 is no limit.
  const most = Math.min(config['max-connections'] || Infinity, fittingConnections);
  const needed = most * (config['grpc-port'] === false ? 1 : 2);
  const what = `the process may open ${limit} files`;
  const remedy =
    'raise LimitNOFILE of systemd or ulimit -n: beyond it, connections are closed without an error';
  return Number(limit) < needed ? [warn(`${what}, but its connections need ${needed}`, remedy)] : [ok(what)];
}

/** A small heap lowers the limit on connections, which is a problem only if the operator has chosen a higher one. */
export async function examineHeap({ config, settings }: ParsedConfig): Promise<Finding[]> {
  const most = config['max-connections'];
  if (most <= fittingConnections) return [];
  const what = `the heap allows ${fittingConnections} connections for each port and process, not ${most}`;
  const { source, label } = settings['max-connections'];
  return [source === 'default' ? ok(what) : warn(what, `lower ${label}, or enlarge the heap`)];
}

async function examineSharing({ config: { database, workers } }: ParsedConfig): Promise<Finding[]> {
  const finding = workers > 1 && (await schemeOf(database)?.persistent?.examineSharing?.(workers));
  return finding ? [finding] : [];
}

/** Examines the standbys. None of their problems is a failure, because the primary serves the reads instead. */
export async function examineStandbys({ config }: ParsedConfig): Promise<Finding[]> {
  const { 'read-database': url = '', workers: processes } = config;
  const options = { isStandby: true, processes, hasStandbys: true };
  const findings = (await schemeOf(url)?.persistent?.examine(url, options)) ?? [];
  return findings.map((finding) => ({
    ...finding,
    level: finding.level === 'fail' ? 'warn' : finding.level,
    what: `--read-database: ${finding.what}`,
  }));
}

/** The standbys that cannot be reached. Otherwise only the metrics would show them, after the first reads. */
async function unreachableStandbys(parsed: ParsedConfig): Promise<Finding[]> {
  const unreachable = (await examineStandbys(parsed)).filter(({ isUnreachable }) => isUnreachable);
  return unreachable.map(({ what }) => warn(what, 'the primary serves its reads'));
}
