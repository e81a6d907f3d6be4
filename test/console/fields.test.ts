import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fullUsers } from '../../src/conformance/fixture.ts';
import { userFields } from '../../src/domain/user.ts';
import { type ConsoleUserModule, loadModule } from './modules.ts';

const page = readFileSync(new URL('../../public/index.html', import.meta.url), 'utf8');
const draftFields = Object.keys(fullUsers[0]);

/** The values of an attribute in the element of the page with this id, in order. */
function valuesIn(id: string, attribute: string): (string | undefined)[] {
  const [, tag, content = ''] = new RegExp(`<(\\w+)[^>]* id="${id}".*?>(.*?)</\\1>`, 's').exec(page) ?? [];
  assert.ok(tag !== undefined, `the page has no element ${id}`);
  return [...content.matchAll(new RegExp(` ${attribute}="([^"]*)"`, 'g'))].map(([, value]) => value);
}

test('the forms of the console have each field of a user', () => {
  for (const id of ['new-user-form', 'edit-form']) assert.deepEqual(valuesIn(id, 'name'), draftFields, id);
});

test('the list of the console has a column for each field of a user, and sorts by it', () => {
  assert.deepEqual(valuesIn('user-table', 'data-sort'), Object.keys(userFields));
  const parts = valuesIn('user-row', 'data-part');
  assert.deepEqual(
    ['id', ...draftFields].filter((field) => !parts.includes(field)),
    [],
  );
});

test('the scripts of the console know each field of a user', () => {
  const users = loadModule<ConsoleUserModule>('console/api/resources.js');
  assert.deepEqual(Object.keys(users.userFields(fullUsers[0])), draftFields);
  assert.deepEqual(users.toDraft(users.userFields(fullUsers[0])), fullUsers[0]);
  assert.deepEqual(users.toDraft(users.userFields({ name: 'Ada' })), { name: 'Ada' });
});

test('the console reads as many posts again as are shown, within the limits of a page', () => {
  const posts = loadModule<ConsoleUserModule>('console/api/resources.js').createPostsApi();
  const limits = [0, 10, 11, 100, 101].map((shown) => posts.firstPage(1, shown).searchParams.get('limit'));
  assert.deepEqual(limits, ['10', '10', '11', '100', '100']);
});
