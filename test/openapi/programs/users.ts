import { Configuration, UsersApi } from './client/index.js';

const users = new UsersApi(new Configuration({ basePath: process.argv[2] }));
const { id } = await users.createUser({ userDraft: { name: 'Ada', role: 'admin' } });
const roles = [(await users.getUser({ id })).role];
for (const role of ['countess', null]) {
  roles.push((await users.updateUser({ id, userPatch: { role } })).role);
}
const names: string[] = [];
for (let cursor: string | undefined = ''; cursor !== undefined; ) {
  const page = await users.listUsersRaw({ limit: 2, ...(cursor !== '' && { cursor }) });
  for (const { name } of await page.value()) names.push(name);
  const [, next] = /[?&]cursor=([^&>]+)[^>]*>; rel="next"/.exec(page.raw.headers.get('link') ?? '') ?? [];
  cursor = next === undefined ? undefined : decodeURIComponent(next);
}
console.log(JSON.stringify([roles.map((role) => role ?? ''), names]));
