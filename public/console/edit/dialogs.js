// @ts-check
import { hasStatus, isMissing } from '../api/client.js';
import { toDraft, userFields } from '../api/resources.js';
import { byId, clone, part, showDialog } from '../ui/dom.js';
import { isBusy, readFields, setBusy, showProblem, writeFields } from '../ui/forms.js';
import { creationKey, readDraft, writeDraft, writeTyped } from '../ui/memory.js';
import { announce, nameText } from '../ui/messages.js';
import { labelOf } from './save.js';

/** @import { RecordCalls, Tagged } from '../api/record-calls.js' */
/** @import { User, UsersApi } from '../api/resources.js' */
/** @import { Choose, Fields, Merge } from './save.js' */

const newUserDraft = 'new-user';

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

  form.addEventListener('input', () => writeTyped(newUserDraft, readFields(form)));
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    if (isBusy(form)) return;
    const draft = toDraft(userFields(readFields(form)));
    sending = new AbortController();
    setBusy(form, true);
    showProblem(form, problem, undefined);
    try {
      const key = creationKey(newUserDraft, draft);
      const user = await users.create('users', draft, key, sending.signal);
      writeDraft(newUserDraft, undefined);
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
      writeFields(form, readDraft(newUserDraft)?.fields ?? {});
      showProblem(form, problem, undefined);
      await showDialog(dialog);
      sending.abort();
      if (readDraft(newUserDraft) !== undefined) announce('This tab keeps your text for the new user');
    },
  };
}

/**
 * The dialog that shows two changes of the same field to choose one. There is no default.
 * @returns {Choose}
 */
export function createConflictDialog() {
  const dialog = byId('conflict-dialog', HTMLDialogElement);
  const form = byId('conflict-form', HTMLFormElement);
  const place = byId('conflict-fields', HTMLElement);
  const shownName = part(form, 'name', HTMLElement);
  let isChosen = false;
  /** @type {Promise<unknown>} */
  let asked = Promise.resolve();

  form.addEventListener('submit', (event) => {
    event.preventDefault();
    isChosen = true;
    dialog.close();
  });

  /** @type {Choose} */
  async function ask(name, base, mine, theirs) {
    isChosen = false;
    shownName.textContent = name;
    place.replaceChildren(...mine.conflicts.map((field) => choice(field, base, mine, theirs)));
    await showDialog(dialog);
    if (!isChosen) return undefined;
    const answers = readFields(form);
    const taken = Object.entries(theirs).filter(([field]) => answers[field] === 'theirs');
    return { ...mine.fields, ...Object.fromEntries(taken) };
  }

  return (...changes) => {
    // A user and a post can conflict at the same time.
    const answer = asked.then(() => ask(...changes));
    asked = answer;
    return answer;
  };
}

/**
 * @param {string} name
 * @param {Fields} base
 * @param {Merge} mine
 * @param {Fields} theirs
 */
function choice(name, base, mine, theirs) {
  const made = clone('conflict-field');
  part(made, 'label', HTMLElement).textContent = labelOf(name);
  for (const radio of made.querySelectorAll('input')) radio.name = name;
  const texts = { base: base[name], mine: mine.fields[name], theirs: theirs[name] };
  for (const [place, text = ''] of Object.entries(texts)) {
    const shown = part(made, place, HTMLElement);
    shown.textContent = text === '' ? 'none' : text;
    shown.toggleAttribute('data-empty', text === '');
  }
  return made;
}

/**
 * The dialog that confirms a deletion. It deletes only the version that is shown.
 * @template T
 * @param {HTMLDialogElement} dialog
 * @param {Pick<RecordCalls<T, T>, 'get' | 'remove'>} calls
 * @param {(record: T) => string} nameOf
 * @returns {(tagged: Tagged<T>) => Promise<boolean>} whether the record is deleted
 */
export function createDeleteDialog(dialog, calls, nameOf) {
  const form = part(dialog, 'form', HTMLFormElement);
  const problem = part(dialog, 'problem', HTMLElement);
  const name = part(dialog, 'name', HTMLElement);
  /** @type {Tagged<T> | undefined} */
  let target;
  let isGone = false;
  let sending = new AbortController();

  /**
   * @param {Tagged<T>} tagged
   * @param {AbortSignal} signal
   */
  async function remove(tagged, signal) {
    const deleted = nameText(nameOf(tagged.record));
    try {
      await removeVersion(tagged, signal);
      announce('Deleted ', deleted);
    } catch (error) {
      if (!isMissing(error)) throw error;
      announce(deleted, ' was already deleted');
    }
    isGone = true;
  }

  /**
   * Deletes the record, or shows its newer version and throws.
   * @param {Tagged<T>} tagged
   * @param {AbortSignal} signal
   */
  async function removeVersion({ record, etag }, signal) {
    try {
      await calls.remove(record, etag, signal);
    } catch (error) {
      if (!hasStatus(error, 412)) throw error;
      target = await calls.get(record, signal);
      name.textContent = nameOf(target.record);
      throw new Error('It was changed after you opened it. Delete it as it is now?');
    }
  }

  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    if (isBusy(form) || target === undefined) return;
    const { signal } = sending;
    setBusy(form, true);
    showProblem(form, problem, undefined);
    try {
      await remove(target, signal);
    } catch (error) {
      if (!signal.aborted) showProblem(form, problem, error);
    }
    if (signal.aborted) return;
    setBusy(form, false);
    if (isGone) dialog.close();
  });

  return async (tagged) => {
    target = tagged;
    isGone = false;
    const opened = new AbortController();
    sending = opened;
    setBusy(form, false);
    name.textContent = nameOf(tagged.record);
    showProblem(form, problem, undefined);
    await showDialog(dialog);
    opened.abort();
    return isGone;
  };
}
