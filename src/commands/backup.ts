import { sqlitePath } from '../storage/open.ts';
import { backupSqlite } from '../storage/sqlite-backup.ts';
import type { CommandContext } from './command.ts';
import { databaseUrl, parseOptions, reportFailure, UsageError } from './options.ts';
import { createProgress, type Progress } from './progress.ts';

/**
 * Copies a live SQLite store into a new file, as it is at one moment: `backup FILE [--database URL]`.
 * The service may go on writing meanwhile.
 */
export function backup(context: CommandContext): Promise<number> {
  return reportFailure(context, async () => {
    const options = parseOptions(context.args, ['database']);
    const [file, ...others] = options.positionals;
    if (file === undefined || others.length > 0) {
      throw new UsageError('usage: users-service backup FILE [--database URL]');
    }
    const source = sqlitePath(databaseUrl(options, context.env));
    if (source === undefined) {
      throw new UsageError(
        '--database must be sqlite:PATH; PostgreSQL has pg_dump and base backups of its own',
      );
    }
    await backupFile(context, source, file);
  });
}

async function backupFile({ stdout, stderr }: CommandContext, source: string, file: string): Promise<void> {
  let progress: Progress | undefined;
  await backupSqlite(source, file, (done, total) => {
    progress ??= createProgress(stderr, 'backup', total);
    progress.update(done);
  });
  progress?.finish();
  stdout.write(`backed up ${source} to ${file}\n`);
}
