// @ts-check
import { isMissing } from '../api/client.js';
import { versionOf } from '../api/record-calls.js';
import { byId, moveFocus, setText } from '../ui/dom.js';
import { markDeleted, readDraft } from '../ui/memory.js';
import {
  announce,
  clearState,
  explain,
  pauseAfter,
  retryWhenReady,
  showFailure,
  showState,
} from '../ui/messages.js';

/** @import { TaggedUser, User, UsersApi } from '../api/resources.js' */
/** @import { createEditForm } from '../edit/edit-form.js' */
/** @import { createPostsPanel } from '../posts/posts-panel.js' */

/**
 * The panel of the open user beside the list.
 * @param {object} parts
 * @param {UsersApi} parts.users
 * @param {ReturnType<typeof createEditForm<User>>} parts.editForm
 * @param {ReturnType<typeof createPostsPanel>} parts.posts
 * @param {() => void} parts.close
 * @param {(tagged: TaggedUser) => void} parts.remove
 */
export function createUserPanel({ users, editForm, posts, close, remove }) {
  const work = byId('work', HTMLElement);
  const panel = byId('detail', HTMLElement);
  const heading = byId('detail-heading', HTMLElement);
  const content = byId('detail-content', HTMLElement);
  const state = byId('detail-state', HTMLElement);
  const facts = byId('detail-facts', HTMLElement);
  /** @type {number | undefined} */
  let openId;
  /** @type {TaggedUser | undefined} */
  let loaded;
  /**
   * The user after a change during a read, whose response may be older.
   * @type {TaggedUser | undefined}
   */
  let changed;
  let loading = new AbortController();

  byId('detail-close', HTMLButtonElement).addEventListener('click', close);
  byId('edit-delete', HTMLButtonElement).addEventListener('click', () => {
    if (loaded !== undefined) remove(loaded);
  });
  panel.addEventListener('keydown', (event) => {
    // Closing keeps typed text as drafts.
    if (event.key === 'Escape' && !event.defaultPrevented && !event.isComposing && openId !== undefined)
      close();
  });

  /** @param {number} [lastPauseMs] before this read, if it is tried again by itself */
  async function load(lastPauseMs = 0) {
    const id = openId;
    loading.abort();
    loading = new AbortController();
    const { signal } = loading;
    if (id === undefined) return;
    changed = undefined;
    panel.ariaBusy = 'true';
    try {
      const read = await users.get({ id }, signal);
      show(changed !== undefined && versionOf(changed) > versionOf(read) ? changed : read);
    } catch (error) {
      if (signal.aborted) return;
      if (isMissing(error)) showMissing(id);
      else if (loaded === undefined) showFailure(state, 'The user could not be read', error, () => load());
      else {
        // A message moves no form. If the user that was read before is outdated, a save is a conflict.
        if (lastPauseMs === 0) announce(`The user could not be read again: ${explain(error)}`);
        const pauseMs = pauseAfter(error, lastPauseMs);
        // Each read ends the attempts of the one before it.
        const isWanted = () => !signal.aborted;
        if (pauseMs !== undefined) void retryWhenReady(isWanted, () => load(pauseMs), pauseMs);
      }
    }
    if (!signal.aborted) panel.ariaBusy = 'false';
  }

  /**
   * Shows that a user does not exist, above the forms if they have typed text.
   * @param {number} id
   */
  function showMissing(id) {
    markDeleted(id);
    const base = readDraft(`user.${id}`)?.base;
    // After a reload of the page, only the draft has the text.
    if (loaded === undefined && base !== undefined)
      editForm.show({ record: { id, name: '', ...base }, etag: '' });
    const isTyped = content.querySelector('form > p.unsaved:not([hidden])') !== null;
    content.hidden = !isTyped;
    content.toggleAttribute('data-deleted', isTyped);
    const action = { label: 'Back to the list', act: close };
    if (!isTyped) return showState(state, `There is no user ${id}`, 'It may have been deleted.', action);
    showState(state, `User ${id} was deleted`, 'You can still copy your text from the form below.', action);
    announce(`User ${id} was deleted. Your text is still here`);
  }

  /**
   * @param {TaggedUser} tagged
   * @param {string} [note]
   */
  function show(tagged, note = '') {
    loaded = tagged;
    content.removeAttribute('data-deleted');
    clearState(state);
    content.hidden = false;
    const { id, name } = tagged.record;
    heading.textContent = name;
    document.title = `${name} · User ${id} · users-service`;
    // A proxy may have removed the entity tag.
    const version = versionOf(tagged);
    setText(facts, `User ${id}${version ? ` · version ${version}` : ''}${note}`);
    editForm.show(tagged);
  }

  return {
    reload: () => load(),

    /**
     * Shows a change from the feed. Typed text stays, and a conflict is shown here.
     * @param {TaggedUser} tagged
     * @param {string} note who has made it
     */
    change(tagged, note) {
      if (tagged.record.id !== openId) return;
      changed = tagged;
      if (loaded === undefined || versionOf(tagged) <= versionOf(loaded)) return;
      show(tagged, note);
    },

    /** @param {TaggedUser} tagged */
    refresh(tagged) {
      if (tagged.record.id !== openId) return;
      changed = tagged;
      show(tagged);
    },

    /**
     * Opens a user, or closes the one that is open.
     * @param {number | undefined} id
     * @returns {Promise<boolean>} whether the user is now shown
     */
    async open(id) {
      if (id === openId) return false;
      openId = id;
      loaded = undefined;
      work.dataset['view'] = id === undefined ? 'list' : 'detail';
      content.hidden = true;
      clearState(state);
      heading.textContent = `User ${id}`;
      document.title = `${id === undefined ? 'Users' : `User ${id}`} · users-service`;
      facts.textContent = '';
      editForm.close();
      posts.open(id);
      await load();
      return openId === id;
    },

    focus() {
      moveFocus(heading);
    },
  };
}
