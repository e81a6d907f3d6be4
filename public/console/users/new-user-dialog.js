// @ts-check
import { byId, showDialog } from '../ui/dom.js';
import { creationKey, readDraft, writeDraft, writeTyped } from '../ui/drafts.js';
import { isBusy, readFields, setBusy, showProblem, writeFields } from '../ui/forms.js';
import { toDraft, userFields } from './user.js';

/** @import { User, UsersApi } from './user.js' */

const draftName = 'new-user';

/**
 * The dialog that creates users. It keeps the typed text until the user is created, also while the dialog is
 * closed.
 * @param {UsersApi} users
 * @param {(user: User) => void} created
 */
export function createNewUserDialog(users, created) {
  const dialog = byId('new-user-dialog', HTMLDialogElement);
  const form = byId('new-user-form', HTMLFormElement);
  const problem = byId('new-user-error', HTMLElement);
  let sending = new AbortController();

  form.addEventListener('input', () => writeTyped(draftName, readFields(form)));
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    if (isBusy(form)) return;
    const draft = toDraft(userFields(readFields(form)));
    sending = new AbortController();
    setBusy(form, true);
    showProblem(form, problem, undefined);
    try {
      const key = creationKey(draftName, draft);
      const user = await users.create('users', draft, key, sending.signal);
      writeDraft(draftName, undefined);
      form.reset();
      dialog.close();
      created(user);
    } catch (error) {
      if (!sending.signal.aborted) showProblem(form, problem, error);
    } finally {
      setBusy(form, false);
    }
  });

  return {
    async open() {
      writeFields(form, readDraft(draftName)?.fields ?? {});
      showProblem(form, problem, undefined);
      await showDialog(dialog);
      sending.abort();
    },
  };
}
