// @ts-check
import { hasStatus } from '../api/api-error.js';
import { showDialog } from '../ui/dialog.js';
import { byId } from '../ui/dom.js';
import { isBusy, setBusy } from '../ui/form-fields.js';
import { showProblem } from '../ui/form-problem.js';

/** @import { TaggedUser, User, UsersApi } from './users-api.js' */

/**
 * The deleted user as it was last seen, and whether it was gone before this request.
 * @typedef {{ user: User, wasGone: boolean }} Deletion
 */

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
  /** @type {Deletion | undefined} */
  let deletion;

  /** @param {TaggedUser} tagged */
  async function remove(tagged) {
    const { user, etag } = tagged;
    try {
      await users.remove(user.id, etag);
      deletion = { user, wasGone: false };
    } catch (error) {
      if (hasStatus(error, 404)) deletion = { user, wasGone: true };
      else if (hasStatus(error, 412)) await showChanged(user.id);
      else showProblem(form, problem, error);
    }
  }

  /** @param {number} id */
  async function showChanged(id) {
    target = await users.get(id);
    name.textContent = target.user.name;
    showProblem(
      form,
      problem,
      new Error('This user was changed after you opened it. Delete it as it is now?'),
    );
  }

  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    if (isBusy(form) || target === undefined) return;
    setBusy(form, true);
    showProblem(form, problem, undefined);
    try {
      await remove(target);
    } catch (error) {
      showProblem(form, problem, error);
    }
    setBusy(form, false);
    if (deletion !== undefined) dialog.close();
  });

  return {
    /**
     * @param {TaggedUser} tagged
     * @returns {Promise<Deletion | undefined>}
     */
    async ask(tagged) {
      target = tagged;
      deletion = undefined;
      name.textContent = tagged.user.name;
      showProblem(form, problem, undefined);
      await showDialog(dialog);
      return deletion;
    },
  };
}
