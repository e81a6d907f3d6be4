// @ts-check
import { postDraftName } from '../api/resources.js';
import { byId, clone, moveFocus, part, setText } from '../ui/dom.js';
import { readDraft } from '../ui/memory.js';

/** @import { Post } from '../api/resources.js' */

/**
 * The posts of a user as items of a list.
 * @param {HTMLOListElement} list
 * @param {(post: Post) => void} edit
 */
export function createPostList(list, edit) {
  // The style sheet cuts a long text, unless the details after it are open.
  const cuts = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const whole = target.nextElementSibling;
      if (whole instanceof HTMLDetailsElement && !whole.open)
        whole.hidden = target.scrollHeight <= target.clientHeight;
    }
  });

  /** @param {Post} post */
  function item(post) {
    const made = clone('post-item');
    made.dataset['id'] = String(post.id);
    const whole = part(made, 'whole', HTMLDetailsElement);
    whole.open = itemOf(post)?.querySelector('details')?.open === true;
    whole.hidden = !whole.open;
    fill(made, post);
    return made;
  }

  /**
   * Shows a post in an item. Its elements stay, so that a change does not end a click, a selection or the focus.
   * @param {HTMLElement} shown
   * @param {Post} post
   */
  function fill(shown, post, mark = '') {
    setText(part(shown, 'title', HTMLElement), post.title);
    const body = part(shown, 'body', HTMLElement);
    setText(body, post.body);
    body.hidden = post.body === '';
    // Measures it again.
    cuts.observe(body);
    const button = part(shown, 'edit', HTMLButtonElement);
    button.ariaLabel = `Edit ${post.title}`;
    button.onclick = () => edit(post);
    part(shown, 'changed', HTMLElement).textContent = mark;
    markUnsaved(shown, post);
  }

  /** @param {Pick<Post, 'id'>} post */
  function itemOf({ id }) {
    const found = list.querySelector(`:scope > [data-id="${id}"]`);
    return found instanceof HTMLElement ? found : undefined;
  }

  /**
   * The changes during a read, whose response may be older.
   * @type {[Post, () => void][]}
   */
  let changes = [];

  /**
   * @param {Post} post
   * @param {() => void} make
   */
  function change(post, make) {
    if (list.ariaBusy === 'true') changes.push([post, make]);
    make();
  }

  /**
   * Inserts an item by the id of its post. The post that is edited may be older than those that were read.
   * @param {HTMLElement} made
   */
  function insert(made) {
    const id = Number(made.dataset['id']);
    // A new post may already be listed when its response arrives, or the other way round.
    if (itemOf({ id }) !== undefined) return;
    const older = [...list.children].find((shown) => Number(shown.getAttribute('data-id')) < id);
    list.insertBefore(made, older ?? null);
  }

  return {
    itemOf,

    /** @param {readonly Post[]} posts */
    append(posts) {
      for (const post of posts) insert(item(post));
    },

    /** Must be called before each read. */
    startRead() {
      changes = [];
      list.ariaBusy = 'true';
    },

    /** Must be called after the posts of a read are shown. */
    repeatChanges() {
      // A post that was opened meanwhile shows its latest version when it closes.
      for (const [post, make] of changes) if (!itemOf(post)?.hasAttribute('data-editing')) make();
    },

    /**
     * Shows these posts, newest first, instead of all others except the one that is edited. The focus stays.
     * @param {readonly Post[]} posts
     */
    replace(posts) {
      const focused = list.querySelector(':scope > :focus-within');
      const edited = list.querySelector('[data-editing]');
      // An item that replaces one with its whole text shows it, too.
      const made = posts.map(item);
      for (const shown of [...list.children]) if (shown !== edited) shown.remove();
      for (const next of made) insert(next);
      if (focused === null || focused === edited) return;
      const same = itemOf({ id: Number(focused.getAttribute('data-id')) });
      if (same === undefined) byId('posts-heading', HTMLElement).focus();
      else part(same, 'edit', HTMLButtonElement).focus();
    },

    /** @param {Post} post */
    prepend(post) {
      change(post, () => {
        if (itemOf(post) === undefined) list.prepend(item(post));
      });
    },

    /**
     * Shows a changed post in its place.
     * @param {Post} post
     * @param {'' | 'Changed' | 'Deleted'} mark for a change by another person
     * @param {boolean} isOld whether the response to a running read may be newer, but not older
     */
    update(post, mark = '', isOld = false) {
      const make = () => {
        const shown = itemOf(post);
        if (shown === undefined) return;
        const hadForm = shown.hasAttribute('data-editing') && shown.contains(document.activeElement);
        shown.removeAttribute('data-editing');
        fill(shown, post, mark);
        if (hadForm) part(shown, 'edit', HTMLButtonElement).focus();
      };
      if (isOld) make();
      else change(post, make);
    },

    /** @param {Post} post */
    remove: (post) => change(post, () => itemOf(post)?.remove()),

    /** @param {Post} post */
    focus(post) {
      const found = itemOf(post);
      if (found !== undefined) moveFocus(part(found, 'edit', HTMLButtonElement));
    },

    /** @param {Post} post a post whose draft was added or removed */
    markUnsaved(post) {
      const found = itemOf(post);
      if (found !== undefined) markUnsaved(found, post);
    },
  };
}

/**
 * @param {HTMLElement} item
 * @param {Post} post
 */
function markUnsaved(item, post) {
  part(item, 'mark', HTMLElement).textContent = readDraft(postDraftName(post)) === undefined ? '' : 'Unsaved';
}
