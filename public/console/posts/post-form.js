// @ts-check
import { sameFields } from '../edit/fields.js';
import { byId } from '../ui/dom.js';
import { creationKey, readDraft, writeDraft, writeTyped } from '../ui/drafts.js';
import { explain } from '../ui/explain.js';
import { isBusy, readFields, setBusy, writeFields } from '../ui/form-fields.js';
import { showProblem } from '../ui/form-problem.js';
import { announce } from '../ui/toasts.js';

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
  const unsaved = byId('post-unsaved', HTMLElement);
  /** @type {number | undefined} */
  let openId;

  form.addEventListener('input', () => {
    unsaved.hidden = !writeTyped(`post.${openId}`, readFields(form));
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
        if (openId === userId) {
          form.reset();
          unsaved.hidden = true;
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
