// @ts-check
import { isMissing } from '../api/client.js';
import { versionOf } from '../api/record-calls.js';
import { postDraftName, postKind } from '../api/resources.js';
import { createDeleteDialog } from '../edit/dialogs.js';
import { createEditForm } from '../edit/edit-form.js';
import { byId, moveFocus, part } from '../ui/dom.js';
import { readDraft, writeDraft } from '../ui/memory.js';
import { announce, explain, nameText } from '../ui/messages.js';

/** @import { Tagged } from '../api/record-calls.js' */
/** @import { Post, PostsApi } from '../api/resources.js' */
/** @import { Choose } from '../edit/save.js' */
/** @import { createPostList } from './post-list.js' */

/**
 * Changes and deletes one post at a time. The form replaces the post that it changes.
 * @param {object} parts
 * @param {PostsApi} parts.posts
 * @param {ReturnType<typeof createPostList>} parts.list
 * @param {Choose} parts.choose
 * @param {() => Promise<boolean>} parts.ready asks for an API key if one is needed
 * @param {(post: Post) => void} parts.drafted after a draft of this post was added or removed
 * @param {(post: Post) => void} parts.removed
 */
export function createPostEditor({ posts, list, choose, ready, drafted, removed }) {
  const form = byId('post-edit-form', HTMLFormElement);
  const home = byId('post-editor-home', HTMLElement);
  const dialog = byId('delete-post-dialog', HTMLDialogElement);
  /** @type {Tagged<Post> | undefined} */
  let opened;
  let opening = new AbortController();
  /** @type {number | undefined} */
  let openingId;
  /**
   * The post after a change during its read, whose response may be older.
   * @type {Tagged<Post> | undefined}
   */
  let changed;
  /**
   * The open post before it was read again. The list, which is read at the same time, may have a later version.
   * @type {Tagged<Post> | undefined}
   */
  let reread;

  const kind = postKind(posts);
  const editForm = createEditForm(form, kind, {
    choose,
    drafted,
    changed(tagged, isDone) {
      if (opened?.record.id !== tagged.record.id) return list.update(tagged.record);
      opened = tagged;
      // The form stays in the item of a post that was reopened.
      if (isDone) leave();
    },
  });
  const confirm = createDeleteDialog(dialog, posts, kind.nameOf);

  part(form, 'delete', HTMLButtonElement).addEventListener('click', async () => {
    if (!(await ready()) || opened === undefined) return;
    const { record } = opened;
    if (await confirm(opened)) forget(record);
  });
  part(form, 'close', HTMLButtonElement).addEventListener('click', leave);
  form.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || event.isComposing) return;
    // The panel of the user stays open.
    event.preventDefault();
    leave();
  });

  /** @param {Post} post a deleted post */
  function forget(post) {
    writeDraft(postDraftName(post), undefined);
    close();
    list.remove(post);
    removed(post);
  }

  function leave() {
    const left = opened?.record;
    close();
    if (left !== undefined) list.focus(left);
  }

  function close() {
    opening.abort();
    // The post may have been saved, or changed by another person, while it was open. This also moves a focus in the
    // form to the post, before the form closes.
    const mark = form.hasAttribute('data-deleted') ? 'Deleted' : '';
    if (opened !== undefined) list.update(opened.record, mark, mark === '' && opened === reread);
    opened = undefined;
    editForm.close();
    home.append(form);
  }

  /**
   * Reads a post that is being opened or is open.
   * @param {Post} post
   */
  async function read(post) {
    openingId = post.id;
    changed = undefined;
    const found = await posts.get(post, opening.signal);
    return changed !== undefined && versionOf(changed) > versionOf(found) ? changed : found;
  }

  /** @param {Tagged<Post>} tagged with an empty tag if the post does not exist */
  function show(tagged) {
    opened = tagged;
    form.toggleAttribute('data-deleted', tagged.etag === '');
    editForm.show(tagged);
  }

  return {
    close,

    /** Reads the open post again. The list, which is read at the same time, shows any failure. */
    async reload() {
      if (opened === undefined) return;
      reread = opened;
      const { record } = opened;
      try {
        show(await read(record));
      } catch (error) {
        if (isMissing(error)) this.change({ record, etag: '' }, 'Deleted');
      }
    },

    /**
     * Shows a change of the open post from the feed, and keeps the typed text.
     * @param {Tagged<Post>} tagged
     * @param {'Changed' | 'Deleted'} what
     * @returns {boolean} whether the post was open, so that its change is shown
     */
    change(tagged, what) {
      if (what === 'Changed' && openingId === tagged.record.id) changed = tagged;
      if (opened?.record.id !== tagged.record.id) return false;
      if (what === 'Deleted') {
        const isTyped = readDraft(postDraftName(tagged.record)) !== undefined;
        form.setAttribute('data-deleted', '');
        announce(nameText(tagged.record.title), ` was deleted${isTyped ? '. Your text is still here' : ''}`);
        if (!isTyped) close();
        return true;
      }
      // Behind a proxy that removes entity tags, the version of the open post is not a number.
      if (!(versionOf(tagged) <= versionOf(opened))) show(tagged);
      return true;
    },

    /**
     * Opens the latest version of a post, because the version in the list may be older.
     * @param {Post} post
     */
    async open(post) {
      // It is being opened already.
      if (list.itemOf(post)?.ariaBusy === 'true') return;
      close();
      opening = new AbortController();
      const { signal } = opening;
      /** @type {Tagged<Post> | undefined} */
      let found;
      list.itemOf(post)?.setAttribute('aria-busy', 'true');
      try {
        found = await read(post);
      } catch (error) {
        if (signal.aborted) return;
        if (!isMissing(error)) return announce(`The post could not be opened: ${explain(error)}`);
        if (readDraft(postDraftName(post)) === undefined) {
          forget(post);
          return announce(nameText(post.title), ' was already deleted');
        }
      } finally {
        list.itemOf(post)?.removeAttribute('aria-busy');
      }
      // The list may have been read again meanwhile, with new items.
      const item = list.itemOf(post);
      if (item === undefined) return;
      item.append(form);
      item.setAttribute('data-editing', '');
      show(found ?? { record: post, etag: '' });
      moveFocus(part(form, 'title', HTMLInputElement));
    },
  };
}
