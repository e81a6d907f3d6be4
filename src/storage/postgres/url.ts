export const postgresPattern = /^postgres(ql)?:\/\/./;

/**
 * What a URL that matches the pattern must also be; `undefined` if it is valid. Part of an unescaped password could be
 * read as the host, and a message would show it. Without a host, `?host=` names the folder of a socket. Only the value
 * of a parameter may contain @.
 */
export function unmetPostgresRequirement(url: string): string | undefined {
  const firstHost = url.replace(/^(postgres\w*:\/\/(?:[^/?#]*@)?[^/?#@,]*),[^/?#@]*/, '$1');
  const parsed = URL.parse(firstHost.replace('@/', '@host/'));
  const rest = parsed && `${parsed.pathname}${parsed.search.split('=', 1)}${parsed.hash}`;
  return rest === null || rest.includes('@')
    ? 'a URL with a port up to 65535 and a password with %, @, /, ? and # as %25, %40, %2F, %3F and %23'
    : undefined;
}
