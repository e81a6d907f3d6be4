/** The options that can prevent a service from starting. */
export type StartOption = 'database' | 'publicDir' | 'tls' | 'host' | 'port' | 'grpcPort';

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
    // The messages of these errors already name the wrong option.
    if (caught instanceof TypeError || caught instanceof RangeError) throw caught;
    throw new StartError(option, Error.isError(caught) ? caught.message : String(caught), caught);
  }
}

/** Opens a port. Translates system errors into readable messages. */
export async function openPort<Bound>(
  option: 'port' | 'grpcPort',
  host: string,
  port: number,
  listen: (host: string, port: number) => Promise<Bound>,
): Promise<Bound> {
  try {
    return await listen(host, port);
  } catch (caught) {
    const code = Error.isError(caught) && 'code' in caught ? String(caught.code) : '';
    const address = authority(host, port);
    if (code === 'EADDRINUSE') throw new StartError(option, `${address} is in use`, caught);
    if (code === 'EACCES')
      throw new StartError(option, `${address} needs more privileges, or the system reserves it`, caught);
    if (code === 'EADDRNOTAVAIL' || code === 'EINVAL') {
      throw new StartError('host', `${host} is not an address of this machine`, caught);
    }
    if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') {
      throw new StartError('host', `the host name ${host} is not known`, caught);
    }
    throw new StartError(option, `cannot listen on ${address}: ${code || caught}`, caught);
  }
}

/** `host:port`, as in a URL. */
export function authority(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}
