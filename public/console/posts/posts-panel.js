// @ts-check
import { postsOnPage } from '../api/resources.js';
import { sameFields } from '../edit/save.js';
import { byId, moveFocus, setHidden } from '../ui/dom.js';
import { isBusy, readFields, setBusy, showProblem, writeFields } from '../ui/forms.js';
import { creationKey, readDraft, writeDraft, writeTyped } from '../ui/memory.js';
import { announce, clearState, explain, showFailure } from '../ui/messages.js';
import { createPostEditor } from './post-editor.js';
import { createPostList } from './post-list.js';

/** @import { Tagged } from '../api/record-calls.js' */
/** @import { Post, PostsApi } from '../api/resources.js' */
/** @import { Choose } from '../edit/save.js' */

/**
 * The posts of the open user, newest first, one page at a time.
 * @param {PostsApi} posts
 * @param {Choose} choose
 * @param {() => Promise<boolean>} ready asks for an API key if one is needed
 * @param {(userId: number) => void} drafted after a draft of a post of this user was added or removed
 */
export function createPostsPanel(posts, choose, ready, drafted) {
  const heading = byId('posts-heading', HTMLElement);
  const list = byId('post-list', HTMLOListElement);
  const state = byId('posts-state', HTMLElement);
  const empty = byId('posts-empty', HTMLElement);
  const more = byId('posts-more', HTMLButtonElement);
  const showAdded = byId('posts-new', HTMLButtonElement);
  /** @type {number | undefined} */
  let openId;
  /** @type {URL | undefined} */
  let next;
  /**
   * The ids of the posts that other people have added since the first page was read, and that are not listed.
   * @type {Set<number>}
   */
  const added = new Set();
  let loading = new AbortController();

  const items = createPostList(list, (post) => void editor.open(post));
  const editor = createPostEditor({
    posts,
    list: items,
    choose,
    ready,
    drafted(post) {
      items.markUnsaved(post);
      drafted(post.userId);
    },
    removed({ userId }) {
      drafted(userId);
      empty.hidden = list.childElementCount > 0 || next !== undefined;
      moveFocus(heading);
    },
  });
  const form = createPostForm(posts, drafted, (post) => {
    announce('Added the post');
    if (post.userId !== openId) return;
    items.prepend(post);
    countNew();
    empty.hidden = true;
  });

  more.addEventListener('click', async () => {
    if (list.ariaBusy === 'true') return;
    const shown = new Set([...list.children].map(idOf));
    await load();
    const first = [...list.children].find((item) => !shown.has(idOf(item)));
    if (!(first instanceof HTMLElement)) return;
    first.tabIndex = -1;
    moveFocus(first);
  });

  showAdded.addEventListener('click', reload);

  /** Reads as many posts as are shown, and the open post, again. */
  function reload() {
    if (openId === undefined) return;
    next = posts.firstPage(openId, list.childElementCount);
    added.clear();
    countNew();
    void load(items.replace);
    void editor.reload();
  }

  function countNew() {
    for (const item of list.children) added.delete(Number(idOf(item)));
    setHidden(showAdded, added.size === 0, heading);
    showAdded.textContent = `Show ${added.size} new ${added.size === 1 ? 'post' : 'posts'}`;
  }

  /** @param {(posts: readonly Post[]) => void} show */
  async function load(show = items.append) {
    loading.abort();
    if (next === undefined) return;
    const url = next;
    loading = new AbortController();
    const { signal } = loading;
    items.startRead();
    try {
      const { items: rows, links } = await posts.list(url, signal);
      next = links['next'] === undefined ? undefined : new URL(links['next'], url);
      next?.searchParams.set('limit', String(postsOnPage));
      show(rows);
      items.repeatChanges();
      countNew();
      clearState(state);
      empty.hidden = list.childElementCount > 0;
      setHidden(more, next === undefined, heading);
    } catch (error) {
      if (signal.aborted) return;
      setHidden(more, true, heading);
      showFailure(state, 'The posts could not be read', error, () => void load(show));
    }
    list.ariaBusy = 'false';
  }

  return {
    /**
     * Shows a change from the feed, of a post of the open user.
     * @param {Tagged<Post>} tagged
     * @param {'Changed' | 'Deleted'} what
     */
    change(tagged, what) {
      if (tagged.record.userId !== openId) return;
      if (!editor.change(tagged, what)) items.update(tagged.record, what);
      if (what === 'Deleted' && added.delete(tagged.record.id)) countNew();
    },

    reload,

    /**
     * Counts a post that another person has added, unless it is already listed.
     * @param {Post} post
     */
    add(post) {
      if (post.userId !== openId) return;
      added.add(post.id);
      countNew();
    },

    /** @param {number | undefined} userId */
    open(userId) {
      openId = userId;
      next = userId === undefined ? undefined : posts.firstPage(userId, 0);
      editor.close();
      list.replaceChildren();
      added.clear();
      countNew();
      clearState(state);
      more.hidden = true;
      empty.hidden = true;
      form.open(userId);
      void load();
    },
  };
}

/** @param {Element} item */
function idOf(item) {
  return item.getAttribute('data-id');
}

/**
 * The form that adds a post to the open user.
 * @param {PostsApi} posts
 * @param {(userId: number) => void} drafted
 * @param {(post: Post) => void} created
 */
function createPostForm(posts, drafted, created) {
  const form = byId('post-form', HTMLFormElement);
  const compose = byId('post-compose', HTMLDetailsElement);
  const problem = byId('post-error', HTMLElement);
  const unsaved = byId('post-unsaved', HTMLElement);
  /** @type {number | undefined} */
  let openId;

  form.addEventListener('input', () => {
    if (openId === undefined) return;
    unsaved.hidden = !writeTyped(`post.${openId}`, readFields(form));
    drafted(openId);
  });
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    if (isBusy(form) || openId === undefined) return;
    const userId = openId;
    const name = `post.${userId}`;
    const { title = '', body = '' } = readFields(form);
    setBusy(form, true);
    showProblem(form, problem, undefined);
    try {
      const draft = { title, body };
      const post = await posts.create(`users/${userId}/posts`, draft, creationKey(name, draft));
      created(post);
      // The form may have been reopened during the request, and other text typed.
      if (sameFields(draft, readDraft(name)?.fields ?? draft)) {
        writeDraft(name, undefined);
        drafted(userId);
        if (openId === userId) {
          form.reset();
          unsaved.hidden = true;
          // The next post begins with its title.
          if (form.contains(document.activeElement)) form.querySelector('input')?.focus();
        }
      }
    } catch (error) {
      if (openId === userId) showProblem(form, problem, error);
      else announce(`The post was not added: ${explain(error)}`);
    }
    if (openId === userId) setBusy(form, false);
  });

  return {
    /** @param {number | undefined} userId */
    open(userId) {
      openId = userId;
      setBusy(form, false);
      showProblem(form, problem, undefined);
      form.reset();
      const draft = readDraft(`post.${userId}`);
      compose.open = draft !== undefined;
      unsaved.hidden = draft === undefined;
      writeFields(form, draft?.fields ?? {});
    },
  };
}
