// @ts-check
import { byId, setEnabled } from '../ui/dom.js';
import { readDraft, writeDraft } from '../ui/drafts.js';
import { isBusy, readFields, setBusy, writeFields } from '../ui/form-fields.js';
import { showProblem } from '../ui/form-problem.js';
import { nameText, say } from '../ui/toasts.js';
import { saveUser } from './save-user.js';
import { fieldsOf, mergeFields, sameFields, userFields } from './user-fields.js';

/** @import { TaggedUser, UsersApi } from './users-api.js' */
/** @import { Choose, Saved } from './save-user.js' */
/** @import { UserFields } from './user-fields.js' */

/**
 * One user being edited: the version the edit began from, and the latest one seen.
 * @typedef {{ base: UserFields, etag: string, latest: TaggedUser }} Edit
 */

/**
 * The form that changes a user. It overwrites the version it shows and no other.
 * @param {object} parts
 * @param {UsersApi} parts.users
 * @param {Choose} parts.choose
 * @param {(tagged: TaggedUser) => void} parts.changed
 * @param {(id: number) => void} parts.drafted after a draft of this user came or went
 */
export function createEditForm({ users, choose, changed, drafted }) {
  const form = byId('edit-form', HTMLFormElement);
  const note = byId('edit-note', HTMLElement);
  const problem = byId('edit-error', HTMLElement);
  /** @type {Edit | undefined} */
  let shown;

  form.addEventListener('input', () => {
    if (shown !== undefined) keepDraft(shown);
  });
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    if (isBusy(form) || shown === undefined || !keepDraft(shown)) return;
    const edit = shown;
    const from = { id: edit.latest.user.id, etag: edit.etag, base: edit.base };
    setBusy(form, true);
    showProblem(form, problem, undefined);
    try {
      const saved = await saveUser(users, choose, from, userFields(readFields(form)));
      if (saved !== undefined) settle(edit, saved);
    } catch (error) {
      if (shown === edit) showProblem(form, problem, error);
    }
    if (shown?.latest.user.id === from.id) setBusy(form, false);
    if (shown !== undefined) keepDraft(shown);
  });
  byId('edit-discard', HTMLButtonElement).addEventListener('click', () => {
    if (shown === undefined) return;
    const { latest } = shown;
    writeDraft(draftName(latest), undefined);
    show(latest);
    byId('edit-name', HTMLInputElement).focus();
  });

  /**
   * @param {Edit} edit
   * @returns {boolean} whether there is anything to save
   */
  function keepDraft({ base, etag, latest }) {
    const fields = userFields(readFields(form));
    const dirty = !sameFields(fields, base);
    writeDraft(draftName(latest), dirty ? { fields, etag, base } : undefined);
    drafted(latest.user.id);
    byId('edit-unsaved', HTMLElement).hidden = !dirty;
    byId('edit-discard', HTMLButtonElement).hidden = !dirty;
    setEnabled(byId('edit-save', HTMLButtonElement), dirty && !isBusy(form));
    return dirty;
  }

  /**
   * @param {Edit} edit
   * @param {Saved} saved
   */
  function settle(edit, saved) {
    writeDraft(draftName(edit.latest), undefined);
    drafted(edit.latest.user.id);
    // Another user may have been opened while this one was being saved.
    if (shown === edit) show(saved.tagged);
    changed(saved.tagged);
    report(saved);
  }

  /** @param {TaggedUser} latest */
  function show(latest) {
    const draft = readDraft(draftName(latest));
    const now = fieldsOf(latest.user);
    const base = draft?.base === undefined ? now : userFields(draft.base);
    const merge = mergeFields(base, userFields(draft?.fields ?? now), now);
    const isConflict = merge.conflicts.length > 0;
    // Without a conflict the edit goes on from the latest version, with the other changes in it.
    shown = isConflict ? { base, etag: draft?.etag ?? '', latest } : { base: now, etag: latest.etag, latest };
    writeFields(form, merge.fields);
    note.hidden = !isConflict;
    note.textContent = isConflict
      ? `Another person has changed the ${merge.conflicts.join(' and the ')} since you began. When you save, you choose which change to keep.`
      : '';
    showProblem(form, problem, undefined);
    keepDraft(shown);
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

/** @param {Saved} saved */
function report({ tagged, theirs, discarded }) {
  const name = nameText(tagged.user.name);
  if (discarded) return say('Kept the other change to ', name, '; yours is discarded');
  const also = theirs.length === 0 ? '' : `, with another person’s change to the ${theirs.join(' and the ')}`;
  say('Saved ', name, also);
}

/** @param {TaggedUser} tagged */
function draftName({ user }) {
  return `user.${user.id}`;
}
