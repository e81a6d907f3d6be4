// @ts-check
import { ApiError } from '../api/client.js';
import { versionOf } from '../api/record-calls.js';
import { part, setEnabled, setText } from '../ui/dom.js';
import { isBusy, readFields, setBusy, showProblem, writeFields } from '../ui/forms.js';
import { readDraft, writeDraft } from '../ui/memory.js';
import { announce, explain, nameText } from '../ui/messages.js';
import { labelOf, mergeFields, sameFields, save } from './save.js';

/** @import { Tagged } from '../api/record-calls.js' */
/** @import { Choose, Fields, Kind, Saved } from './save.js' */

// Versions begin at 1. With the tag of the base, a save could match other data after a restart of the service.
const tagOfNone = '"0"';

/**
 * One record being edited: the fields at the start of the edit, the names of those that another person has changed too,
 * the tag that a save must match, and the latest known version.
 * @template T
 * @typedef {{ base: Fields, conflicts: readonly string[], etag: string, latest: Tagged<T> }} Edit
 */

/**
 * A form that changes a record. It overwrites only the version that it shows.
 * @template T
 * @param {HTMLFormElement} form
 * @param {Kind<T>} kind
 * @param {object} parts
 * @param {Choose} parts.choose
 * @param {(tagged: Tagged<T>, isDone: boolean) => void} parts.changed after a save; done unless the record was
 *   reopened during the save
 * @param {(record: T) => void} parts.drafted after a draft of this record was added or removed
 */
export function createEditForm(form, kind, { choose, changed, drafted }) {
  const problem = part(form, 'problem', HTMLElement);
  const unsaved = part(form, 'unsaved', HTMLElement);
  const unsavedText = unsaved.textContent;
  const discard = part(form, 'discard', HTMLButtonElement);
  /** @type {Edit<T> | undefined} */
  let shown;
  let saving = new AbortController();

  form.addEventListener('input', () => {
    if (shown !== undefined) keepDraft(shown);
  });
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    if (isBusy(form) || shown === undefined || !keepDraft(shown)) return;
    const edit = shown;
    const { record } = edit.latest;
    const draftName = kind.draftName(record);
    const from = { ...edit, record, tried: readDraft(draftName)?.tried ?? [] };
    const wanted = kind.parse(readFields(form));
    saving = new AbortController();
    const { signal } = saving;
    setBusy(form, true);
    showProblem(form, problem, undefined);
    try {
      const saved = await save(kind, choose, from, wanted, signal);
      if (saved !== undefined) settle(edit, saved);
    } catch (error) {
      if (signal.aborted) return;
      const draft = readDraft(draftName);
      const isRejected = error instanceof ApiError && Math.floor(error.status / 100) === 4;
      // Otherwise the service may have made the change.
      if (draft && !isRejected) writeDraft(draftName, { ...draft, tried: [...(draft.tried ?? []), wanted] });
      if (shown === edit) showProblem(form, problem, error);
      else announce(nameText(kind.nameOf(record)), ` was not saved: ${explain(error)}`);
    }
    if (isShown(record)) setBusy(form, false);
    // A newer version may have arrived during the save.
    if (shown === edit) show(edit.latest);
    else if (shown !== undefined) keepDraft(shown);
  });
  discard.addEventListener('click', () => {
    if (shown === undefined) return;
    const { latest } = shown;
    if (isBusy(form)) saving.abort();
    setBusy(form, false);
    writeDraft(kind.draftName(latest.record), undefined);
    show(latest);
    form.querySelector('input')?.focus();
  });

  /** @param {T} record */
  function isShown(record) {
    return shown !== undefined && kind.draftName(shown.latest.record) === kind.draftName(record);
  }

  /**
   * @param {Edit<T>} edit
   * @returns {boolean} whether there is a change to save
   */
  function keepDraft({ base, conflicts, latest }) {
    const name = kind.draftName(latest.record);
    const draft = readDraft(name);
    // A save over an earlier version can no longer succeed.
    const tried = draft?.base && sameFields(draft.base, base) ? draft.tried : undefined;
    const fields = kind.parse(readFields(form));
    const dirty = !sameFields(fields, base);
    if (!dirty) showProblem(form, problem, undefined);
    writeDraft(name, dirty ? { fields, base, ...(tried && { tried }) } : undefined);
    drafted(latest.record);
    // A conflict can be discarded even if the text is that of the base again.
    const isConflict = conflicts.length > 0;
    unsaved.hidden = discard.hidden = !dirty && !isConflict;
    unsaved.toggleAttribute('data-conflict', isConflict);
    const names = conflicts.map(labelOf).join(', ');
    setText(unsaved, isConflict ? `Another person changed: ${names}` : unsavedText);
    setEnabled(part(form, 'save', HTMLButtonElement), dirty && !isBusy(form));
    return dirty;
  }

  /**
   * @param {Edit<T>} edit
   * @param {Saved<T>} saved
   */
  function settle(edit, saved) {
    const isReopened = shown !== edit && isShown(saved.tagged.record);
    // The text typed since the record was reopened is a change of the saved version.
    const typed = { fields: kind.parse(readFields(form)), base: kind.fieldsOf(saved.tagged.record) };
    writeDraft(kind.draftName(edit.latest.record), isReopened ? typed : undefined);
    drafted(edit.latest.record);
    // Another record may have been opened while this one was being saved.
    if (shown === edit || isReopened) show(saved.tagged);
    changed(saved.tagged, !isReopened);
    if (!saved.isReported) report(kind.nameOf(saved.tagged.record), saved);
  }

  /** @param {Tagged<T>} latest */
  function show(latest) {
    const draft = readDraft(kind.draftName(latest.record));
    const now = kind.fieldsOf(latest.record);
    const base = draft?.base === undefined ? now : kind.parse(draft.base);
    const tried = draft?.tried ?? [];
    const merge = mergeFields(base, kind.parse(draft?.fields ?? now), now, tried);
    const { conflicts } = merge;
    const isConflict = conflicts.length > 0;
    // Without a conflict, the edit continues from the latest version and includes the other changes.
    shown = isConflict
      ? { base, conflicts, etag: tagOfNone, latest }
      : { base: now, conflicts, etag: latest.etag, latest };
    writeFields(form, merge.fields);
    keepDraft(shown);
    // A save whose response was an error or was lost is found by a read, if the service keeps no changes.
    const isSaved = tried.some((fields) => sameFields(fields, now));
    if (!isSaved || !kind.calls.noteSaved(latest.record, versionOf(latest))) return;
    changed(latest, false);
    report(kind.nameOf(latest.record), { theirs: merge.theirs, discarded: false });
  }

  return {
    /** @param {Tagged<T>} latest */
    show(latest) {
      if (shown !== undefined && isBusy(form)) shown.latest = latest;
      else show(latest);
    },

    /** Closes the record. Its draft is kept, and a running save continues. */
    close() {
      shown = undefined;
      unsaved.hidden = true;
      setBusy(form, false);
      showProblem(form, problem, undefined);
    },
  };
}

/**
 * @param {string} name
 * @param {Omit<Saved<unknown>, 'tagged'>} saved
 */
function report(name, { theirs, discarded }) {
  if (discarded) return announce('Kept the other change to ', nameText(name), '; yours is discarded');
  const also = theirs.length === 0 ? '' : `, with another person’s change to the ${listed(theirs)}`;
  announce('Saved ', nameText(name), also);
}

/** @param {readonly string[]} names */
function listed(names) {
  return names.map(labelOf).join(' and the ');
}
