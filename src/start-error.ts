/** The options that can prevent a service from starting. */
export type StartOption = 'database' | 'readDatabase' | 'publicDir' | 'tls' | 'host' | 'port' | 'grpcPort';

/** A service could not start because of one of its options. */
export class StartError extends Error {
  override readonly name = 'StartError';
  readonly option: StartOption;

  constructor(option: StartOption, message: string, cause: unknown) {
    super(message, { cause });
    this.option = option;
  }
}

/** Runs a step of the start. Its failure becomes a `StartError` that names the option. */
export async function step<T>(option: StartOption, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (caught) {
    const message = Error.isError(caught) ? caught.message : String(caught);
    // The store reads the URL of its standbys too.
    throw new StartError(message.startsWith('readDatabase ') ? 'readDatabase' : option, message, caught);
  }
}
