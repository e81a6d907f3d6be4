/** Why a service could not start, and by which of its options. */
export class StartError extends Error {
  override readonly name = 'StartError';
  /** As in `ServiceOptions`. */
  readonly option: StartOption;

  constructor(option: StartOption, message: string, cause: unknown) {
    super(message, { cause });
    this.option = option;
  }
}

export type StartOption = 'database' | 'publicDir' | 'host' | 'port' | 'grpcPort' | 'tls';

/** Runs a step of the start; whatever it fails with becomes a `StartError` that names the option. */
export async function step<T>(option: StartOption, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (caught) {
    // An option that is wrong in itself is named already.
    if (caught instanceof TypeError || caught instanceof RangeError) throw caught;
    throw new StartError(option, caught instanceof Error ? caught.message : String(caught), caught);
  }
}

/** Opens a port; what the system says against it becomes a sentence. */
export async function openPort(
  option: 'port' | 'grpcPort',
  host: string,
  port: number,
  listen: (host: string, port: number) => Promise<number>,
): Promise<number> {
  try {
    return await listen(host, port);
  } catch (caught) {
    const code = codeOf(caught);
    const address = authority(host, port);
    if (code === 'EADDRINUSE') throw new StartError(option, `${address} is in use`, caught);
    if (code === 'EACCES') throw new StartError(option, `${address} needs more privileges`, caught);
    if (code === 'EADDRNOTAVAIL' || code === 'EINVAL') {
      throw new StartError('host', `${host} is not an address of this machine`, caught);
    }
    if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') {
      throw new StartError('host', `the host name ${host} is not known`, caught);
    }
    throw new StartError(option, `cannot listen on ${address}: ${code ?? caught}`, caught);
  }
}

/** `host:port`, as in a URL. */
export function authority(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

function codeOf(caught: unknown): unknown {
  return caught instanceof Error && 'code' in caught ? caught.code : undefined;
}
