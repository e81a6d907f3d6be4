import type { Config } from '../config.ts';
import type { Finding } from '../storage/finding.ts';
import { schemeOf } from '../storage/open.ts';
import type { Observe } from '../telemetry/events.ts';

/** Examines the standbys. None of their problems is a failure, because the primary serves the reads instead. */
export async function examineStandbys(
  { 'read-database': url = '', workers: processes }: Config,
  signal?: AbortSignal,
): Promise<Finding[]> {
  const options = { role: 'standby', processes, hasStandbys: true, signal } as const;
  const findings = (await schemeOf(url)?.lasting?.examine(url, options)) ?? [];
  return findings.map((finding) => ({
    ...finding,
    level: finding.level === 'fail' ? 'warn' : finding.level,
    what: `--read-database: ${finding.what}`,
  }));
}

/** Warns of standbys that cannot be reached. Otherwise only the metrics would show them, after the first reads. */
export async function reportStandbys(config: Config, observe: Observe, signal: AbortSignal): Promise<void> {
  for (const { what, isUnreachable } of await examineStandbys(config, signal)) {
    if (isUnreachable && !signal.aborted)
      observe({ type: 'warning', message: `${what}; the primary serves its reads` });
  }
}
