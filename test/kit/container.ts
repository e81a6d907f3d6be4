import { execFile } from 'node:child_process';
import { chown, cp, mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** The configuration of a container of the last stage. */
export interface Image {
  /** The root of its file system: only the results of the steps, and two empty folders of the base image. */
  readonly folder: string;
  readonly workdir: string;
  readonly env: Readonly<Record<string, string>>;
  /** `uid:gid`. */
  readonly user: string;
  readonly entrypoint: readonly string[];
  readonly healthCheck: readonly string[];
}

const isRoot = process.getuid?.() === 0;

/** Runs the steps of a container file in an empty folder, without a container engine and a base image. */
export async function buildImage(
  text: string,
  checkout: string,
  folder: string,
  env: NodeJS.ProcessEnv,
): Promise<Image> {
  const stages = new Map<string, string>();
  let image: Image | undefined;
  // Lines that end with a backslash continue. Comments may stand between them.
  const lines = text.replaceAll(/^#.*\n/gm, '').replaceAll(/\\\n\s*/g, ' ');
  for (const [, instruction = '', rest = ''] of lines.matchAll(/^([A-Z]+) (.+)$/gm)) {
    if (instruction === 'FROM') {
      const [, name = String(stages.size)] = rest.split(/ (?:AS )?/);
      stages.set(name, join(folder, name));
      const nothing = { workdir: '/', env: {}, user: '', entrypoint: [], healthCheck: [] };
      image = { folder: join(folder, name), ...nothing };
      for (const inner of ['home/node', 'tmp']) {
        const path = join(image.folder, inner);
        await mkdir(path, { recursive: true });
        if (isRoot) await chown(path, 1000, 1000);
      }
    } else if (image !== undefined) {
      image = await perform(image, instruction, rest, checkout, stages, env);
    }
  }
  if (image === undefined) throw new Error('the container file has no FROM');
  return image;
}

async function perform(
  image: Image,
  instruction: string,
  rest: string,
  checkout: string,
  stages: ReadonlyMap<string, string>,
  env: NodeJS.ProcessEnv,
): Promise<Image> {
  const cwd = join(image.folder, image.workdir);
  switch (instruction) {
    case 'WORKDIR':
      await mkdir(join(image.folder, rest), { recursive: true });
      return { ...image, workdir: rest };
    case 'COPY': {
      const [, stage, paths = ''] = /^(?:--from=(\S+) )?(.+)$/.exec(rest) ?? [];
      const source = stage === undefined ? checkout : (stages.get(stage) ?? '');
      const names = paths.split(' ');
      const target = names.pop() ?? '';
      for (const name of names) {
        const to = target.endsWith('/') ? join(cwd, target, name) : join(cwd, target);
        await mkdir(dirname(to), { recursive: true });
        await cp(join(source, name), to, { recursive: true, verbatimSymlinks: true });
      }
      return image;
    }
    case 'RUN': {
      const inFolder = rest.replaceAll(/ \/(?=\w)/g, ` ${image.folder}/`);
      // Only root can change the owner of a folder.
      const command = isRoot ? inFolder : inFolder.replace(/-o \d+ -g \d+ /, '');
      const [uid, gid] = image.user.split(':').map(Number);
      const user = isRoot && image.user !== '' ? { uid, gid } : {};
      await run('sh', ['-ec', command], { cwd, env: { ...env, ...image.env }, ...user });
      return image;
    }
    case 'ENV': {
      const pairs = [...rest.matchAll(/(\w+)=(\S+)/g)].map(([, name = '', value = '']) => {
        return [name, value.startsWith('/') ? join(image.folder, value) : value];
      });
      return { ...image, env: { ...image.env, ...Object.fromEntries(pairs) } };
    }
    case 'USER':
      return { ...image, user: rest };
    case 'ENTRYPOINT':
      return { ...image, entrypoint: JSON.parse(rest) };
    case 'HEALTHCHECK':
      return { ...image, healthCheck: JSON.parse(rest.slice(rest.indexOf('['))) };
    case 'EXPOSE':
    case 'VOLUME':
      return image;
    default:
      throw new Error(`${instruction} is not known`);
  }
}
