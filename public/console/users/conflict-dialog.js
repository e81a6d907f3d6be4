// @ts-check
import { hasStatus } from '../api/api-error.js';
import { showDialog } from '../ui/dialog.js';
import { byId, el } from '../ui/dom.js';
import { showFormError } from '../ui/states.js';
import { fieldsOf, toDraft } from './user-fields.js';

/** @import { TaggedUser, UsersApi } from './users-api.js' */
/** @import { UserFields } from './user-fields.js' */

/** @type {readonly (readonly [label: string, field: keyof UserFields])[]} */
const rows = [
  ['Name', 'name'],
  ['Role', 'role'],
];

/**
 * The choice between two versions of a user, side by side. Neither is thrown away unseen.
 * @param {UsersApi} users
 */
export function createConflictDialog(users) {
  const dialog = byId('conflict-dialog', HTMLDialogElement);
  const problem = byId('conflict-error', HTMLElement);
  const keepMine = byId('keep-mine', HTMLButtonElement);
  /** @type {{ fields: UserFields, etag: string } | undefined} */
  let mine;
  /** @type {TaggedUser | undefined} */
  let theirs;
  /** @type {TaggedUser | undefined} */
  let chosen;

  keepMine.addEventListener('click', async () => {
    if (mine === undefined || theirs === undefined || keepMine.ariaBusy === 'true') return;
    const { user, etag } = theirs;
    keepMine.ariaBusy = 'true';
    showFormError(problem, undefined);
    try {
      // Over the version that is shown as theirs, and no later one.
      chosen = await users.replace(user.id, etag, toDraft(mine.fields));
      dialog.close();
    } catch (error) {
      await showNext(user.id, error);
    }
    keepMine.ariaBusy = 'false';
  });
  byId('take-theirs', HTMLButtonElement).addEventListener('click', () => {
    chosen = theirs;
    dialog.close();
  });

  /**
   * @param {number} id
   * @param {unknown} error
   */
  async function showNext(id, error) {
    try {
      if (!hasStatus(error, 412)) throw error;
      theirs = await users.get(id);
      render();
      showFormError(problem, new Error('It was changed once more. This is the latest version.'));
    } catch (failure) {
      showFormError(problem, failure);
    }
  }

  function render() {
    if (mine === undefined || theirs === undefined) return;
    byId('conflict-mine-tag', HTMLElement).textContent = `from version ${mine.etag}`;
    byId('conflict-theirs-tag', HTMLElement).textContent = `version ${theirs.etag}`;
    const { fields } = mine;
    const other = fieldsOf(theirs.user);
    const made = rows.map(([label, field]) => {
      const differs = fields[field] !== other[field];
      const row = el('tr', differs ? { 'data-differs': '' } : {}, el('th', { scope: 'row' }, label));
      row.append(cell(fields[field]), cell(other[field]));
      return row;
    });
    byId('conflict-rows', HTMLTableSectionElement).replaceChildren(...made);
  }

  return {
    /**
     * @param {UserFields} fields what the person typed
     * @param {string} etag the version they began from
     * @param {TaggedUser} latest
     * @returns {Promise<TaggedUser | undefined>} what holds now; nothing when the choice was put off
     */
    async ask(fields, etag, latest) {
      mine = { fields, etag };
      theirs = latest;
      chosen = undefined;
      showFormError(problem, undefined);
      render();
      await showDialog(dialog);
      return chosen;
    },
  };
}

/** @param {string} value */
function cell(value) {
  return value === ''
    ? el('td', { 'data-empty': '' }, 'none')
    : el('td', { class: 'text', dir: 'auto' }, value);
}
