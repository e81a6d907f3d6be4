import { schemeOf } from '../storage/open.ts';
import { type Command, cleanUps, print } from './command-line.ts';
import { UsageError, usageOf } from './errors.ts';
import { createProgress, type Progress } from './progress.ts';
import { databaseUrl } from './settings.ts';

export const backup: Command = {
  help: `usage: users-service backup FILE [--database URL]

Copies a SQLite store into a new file, and checks the copy. It is consistent,
even while the service writes.

  FILE            the file to write, not - for a pipe; it must not exist yet
  --database URL  the store: sqlite:PATH [sqlite:./data/users.db]
                  (DATABASE_URL in the environment)
`,
  flags: ['database'],
  positionals: 1,
  async run(context, { flags, positionals: [file] }) {
    const { env, stdout, stderr } = context;
    if (file === undefined || file === '-') throw usageOf(backup.help);
    const url = databaseUrl(flags, env);
    const backUp = schemeOf(url)?.persistent?.backUp;
    if (backUp === undefined) {
      throw new UsageError('--database must be sqlite:PATH; for PostgreSQL use pg_dump or its base backups');
    }
    let progress: Progress | undefined;
    await using stopping = cleanUps(context);
    const backingUp = backUp(url, file, (done, total) => {
      // An error of this function ends the copy, which then removes its file.
      if (stopping.disposed) throw new Error('stopped by a signal');
      progress ??= createProgress(stderr, 'backup', total);
      progress.update(done);
    });
    stopping.defer(() => backingUp.catch(() => undefined));
    await backingUp;
    progress?.finish();
    await print(stdout, `backed up ${url} to ${file}\n`);
  },
};
