// @ts-check
import { hasStatus } from '../api/api-error.js';
import { byId } from '../ui/dom.js';
import { readDraft, writeDraft } from '../ui/drafts.js';
import { isBusy, readFields, setBusy, writeFields } from '../ui/form-fields.js';
import { showFormError } from '../ui/states.js';
import { say } from '../ui/toasts.js';
import { fieldsOf, sameFields, toPatch, userFields } from './user-fields.js';

/** @import { TaggedUser, UsersApi } from './users-api.js' */
/** @import { createConflictDialog } from './conflict-dialog.js' */
/** @import { UserFields } from './user-fields.js' */

/**
 * One user being edited: the version the edit began from, and the latest one seen.
 * @typedef {{ base: UserFields, etag: string, latest: TaggedUser }} Edit
 */

/**
 * The form that changes a user. It overwrites the version it shows and no other.
 * @param {object} parts
 * @param {UsersApi} parts.users
 * @param {ReturnType<typeof createConflictDialog>} parts.conflicts
 * @param {(tagged: TaggedUser) => void} parts.changed
 */
export function createEditForm({ users, conflicts, changed }) {
  const form = byId('edit-form', HTMLFormElement);
  const note = byId('edit-note', HTMLElement);
  const problem = byId('edit-error', HTMLElement);
  const discard = byId('edit-discard', HTMLButtonElement);
  /** @type {Edit | undefined} */
  let shown;

  form.addEventListener('input', () => {
    if (shown !== undefined) keepDraft(shown);
  });
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    if (isBusy(form) || shown === undefined) return;
    const edit = shown;
    setBusy(form, true);
    showFormError(problem, undefined);
    try {
      const saved = await save(edit, userFields(readFields(form)));
      if (saved !== undefined) settle(edit, saved);
    } catch (error) {
      if (shown === edit) showFormError(problem, error);
    }
    if (shown === edit || sameUser(edit)) setBusy(form, false);
  });
  discard.addEventListener('click', () => {
    if (shown === undefined) return;
    const { latest } = shown;
    writeDraft(draftName(latest), undefined);
    show(latest);
    byId('edit-name', HTMLInputElement).focus();
  });

  /** @param {Edit} edit */
  function keepDraft({ base, etag, latest }) {
    const fields = userFields(readFields(form));
    const dirty = !sameFields(fields, base);
    writeDraft(draftName(latest), dirty ? { fields, etag, base } : undefined);
    discard.hidden = !dirty;
  }

  /**
   * Resolves to what holds now, or to nothing when there is more to edit.
   * @param {Edit} edit
   * @param {UserFields} wanted
   */
  async function save({ base, etag, latest: { user } }, wanted) {
    try {
      return await users.update(user.id, etag, toPatch(base, wanted));
    } catch (error) {
      if (!hasStatus(error, 412)) throw error;
      const latest = await users.get(user.id);
      // What was wanted is there: the answer to an earlier try was lost, or two meant the same.
      if (sameFields(fieldsOf(latest.user), wanted)) return latest;
      return await conflicts.ask(wanted, etag, latest);
    }
  }

  /**
   * @param {Edit} edit
   * @param {TaggedUser} saved
   */
  function settle(edit, saved) {
    writeDraft(draftName(edit.latest), undefined);
    // Another user may have been opened while this one was being saved.
    if (shown === edit) show(saved);
    changed(saved);
    say(`User ${saved.user.id} is saved`);
  }

  /** @param {Edit} edit */
  function sameUser(edit) {
    return shown?.latest.user.id === edit.latest.user.id;
  }

  /** @param {TaggedUser} latest */
  function show(latest) {
    const draft = readDraft(draftName(latest));
    const base = draft?.base === undefined ? fieldsOf(latest.user) : userFields(draft.base);
    shown = { base, etag: draft?.etag ?? latest.etag, latest };
    writeFields(form, draft?.fields ?? base);
    discard.hidden = draft === undefined;
    const outdated = shown.etag !== latest.etag;
    note.hidden = !outdated;
    note.textContent = outdated
      ? 'Changed by somebody else since you began. Saving will show you both versions.'
      : '';
    showFormError(problem, undefined);
  }

  return {
    /** @param {TaggedUser} latest */
    show(latest) {
      // A save of another user goes on without the form.
      if (shown?.latest.user.id !== latest.user.id) setBusy(form, false);
      if (!isBusy(form)) show(latest);
    },
  };
}

/** @param {TaggedUser} tagged */
function draftName({ user }) {
  return `user.${user.id}`;
}
