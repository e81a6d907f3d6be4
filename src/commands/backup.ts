import { sqlitePath } from '../storage/open.ts';
import { backupSqlite } from '../storage/sqlite/backup.ts';
import { type CommandContext, runCommand, UsageError, usageOf } from './command.ts';
import { databaseUrl, readArguments } from './command-line.ts';
import { createProgress, type Progress } from './progress.ts';

const help = `usage: users-service backup FILE [--database URL]

Copies a SQLite store into a new file, as it is at one moment, while the service may go on writing.

  FILE            the copy; it must not exist yet
  --database URL  the store: sqlite:PATH [sqlite:./data/users.db]
                  (DATABASE_URL in the environment)
`;

export function backup(context: CommandContext): Promise<number> {
  return runCommand(context, help, async () => {
    const given = readArguments(context.args, ['database'], { positionals: 1 });
    const [file] = given.positionals;
    if (file === undefined) throw usageOf(help);
    const source = sqlitePath(databaseUrl(given, context.env));
    if (source === undefined) {
      throw new UsageError('--database must be sqlite:PATH; for PostgreSQL use pg_dump or its base backups');
    }
    let progress: Progress | undefined;
    await backupSqlite(source, file, (done, total) => {
      progress ??= createProgress(context.stderr, 'backup', total);
      progress.update(done);
    });
    progress?.finish();
    context.stdout.write(`backed up ${source} to ${file}\n`);
  });
}
