// @ts-check
import { byId } from '../ui/dom.js';
import { creationKey, readDraft, writeDraft } from '../ui/drafts.js';
import { isBusy, readFields, setBusy, writeFields } from '../ui/form-fields.js';
import { showFormError } from '../ui/states.js';

/** @import { Post, PostsApi } from './posts-api.js' */

/**
 * The form that adds a post to the open user.
 * @param {PostsApi} posts
 * @param {(post: Post) => void} created
 */
export function createPostForm(posts, created) {
  const form = byId('post-form', HTMLFormElement);
  const compose = byId('post-compose', HTMLDetailsElement);
  const problem = byId('post-error', HTMLElement);
  /** @type {number | undefined} */
  let openId;

  form.addEventListener('input', () => {
    const name = `post.${openId}`;
    writeDraft(name, { ...readDraft(name), fields: readFields(form) });
  });
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    if (isBusy(form) || openId === undefined) return;
    const userId = openId;
    const name = `post.${userId}`;
    const { title = '', body = '' } = readFields(form);
    setBusy(form, true);
    showFormError(problem, undefined);
    try {
      const draft = { title, body };
      const post = await posts.create(userId, draft, creationKey(name, draft));
      writeDraft(name, undefined);
      created(post);
      if (openId === userId) form.reset();
    } catch (error) {
      if (openId === userId) showFormError(problem, error);
    }
    if (openId === userId) setBusy(form, false);
  });

  return {
    /** @param {number | undefined} userId */
    open(userId) {
      openId = userId;
      setBusy(form, false);
      showFormError(problem, undefined);
      form.reset();
      const draft = readDraft(`post.${userId}`);
      compose.open = draft !== undefined;
      writeFields(form, draft?.fields ?? {});
    },
  };
}
