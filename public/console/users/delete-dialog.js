// @ts-check
import { hasStatus } from '../api/api-error.js';
import { showDialog } from '../ui/dialog.js';
import { byId } from '../ui/dom.js';
import { isBusy, setBusy } from '../ui/form-fields.js';
import { showFormError } from '../ui/states.js';

/** @import { TaggedUser, UsersApi } from './users-api.js' */

/**
 * The question before a user is deleted, in the version that is shown and no other.
 * @param {UsersApi} users
 */
export function createDeleteDialog(users) {
  const dialog = byId('delete-dialog', HTMLDialogElement);
  const form = byId('delete-form', HTMLFormElement);
  const problem = byId('delete-error', HTMLElement);
  const name = byId('delete-name', HTMLElement);
  /** @type {TaggedUser | undefined} */
  let target;
  /** @type {TaggedUser | undefined} */
  let deleted;

  /** @param {TaggedUser} tagged */
  async function remove(tagged) {
    const { user, etag } = tagged;
    try {
      await users.remove(user.id, etag);
      deleted = tagged;
    } catch (error) {
      // Gone is what was asked for, whoever did it: this request at its first try, or somebody else.
      if (hasStatus(error, 404)) deleted = tagged;
      else if (hasStatus(error, 412)) await showChanged(user.id);
      else showFormError(problem, error);
    }
  }

  /** @param {number} id */
  async function showChanged(id) {
    target = await users.get(id);
    name.textContent = target.user.name;
    showFormError(problem, new Error('This user was changed after you opened it. Delete it as it is now?'));
  }

  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    if (isBusy(form) || target === undefined) return;
    setBusy(form, true);
    showFormError(problem, undefined);
    try {
      await remove(target);
    } catch (error) {
      showFormError(problem, error);
    }
    setBusy(form, false);
    if (deleted !== undefined) dialog.close();
  });

  return {
    /**
     * @param {TaggedUser} tagged
     * @returns {Promise<TaggedUser | undefined>} the user that is gone, as it was last seen
     */
    async ask(tagged) {
      target = tagged;
      deleted = undefined;
      name.textContent = tagged.user.name;
      showFormError(problem, undefined);
      await showDialog(dialog);
      return deleted;
    },
  };
}
