// @ts-check
import { Changes } from './api/changes.js';
import { createClient, isSent } from './api/client.js';
import { Connection } from './api/connection.js';
import { createPostsApi, createUsersApi, userKind } from './api/resources.js';
import { createConflictDialog, createDeleteDialog, createNewUserDialog } from './edit/dialogs.js';
import { createEditForm } from './edit/edit-form.js';
import { createBanner, createFeedState, createLivePanel } from './live/live-panel.js';
import { createPostsPanel } from './posts/posts-panel.js';
import { createRequestDock, RequestLog } from './requests/requests.js';
import { createApiKey } from './ui/api-key.js';
import { byId, moveFocus, wireCloseButtons } from './ui/dom.js';
import { deletedUsers, forgetDraftsOf, hasDrafts, markDeleted } from './ui/memory.js';
import { announce, nameText } from './ui/messages.js';
import { formatView, Navigation } from './ui/navigation.js';
import { createListControls } from './users/list-controls.js';
import { createUserPanel } from './users/user-panel.js';
import { createUserTable } from './users/user-table.js';
import { createUsersPanel } from './users/users-panel.js';

/** @import { Change } from './api/changes.js' */

// The parts that send requests.
const connection = new Connection();
const apiKey = createApiKey();
const log = new RequestLog(() => apiKey.value !== undefined);
const send = createClient({ connection, apiKey, log });
const users = createUsersApi(send);
const postsApi = createPostsApi(send);
const changes = new Changes(apiKey);

// The parts of the page.
const navigation = new Navigation();
const heading = byId('users-heading', HTMLElement);
const table = createUserTable((userId) => formatView({ ...navigation.view, userId }));
const newUser = createNewUserDialog(users, (user) => {
  announce('Created ', nameText(user.name), ` as user ${user.id}`);
  controls.forgetTotal();
  navigation.go({ userId: user.id });
  void list.show(user);
});
const createUser = async () => {
  if (await apiKey.ready()) await newUser.open();
};
const list = createUsersPanel({
  users,
  navigation,
  table,
  createUser,
  listed(monitor) {
    feed.reset();
    changes.begin(monitor);
  },
});
const controls = createListControls(navigation, users);
const feed = createFeedState(changes);
const choose = createConflictDialog();
const confirmDelete = createDeleteDialog(
  byId('delete-dialog', HTMLDialogElement),
  users,
  ({ id, name }) => `${name} (user ${id})`,
);
const editForm = createEditForm(byId('edit-form', HTMLFormElement), userKind(users), {
  choose,
  changed(tagged) {
    list.update(tagged.record);
    panel.refresh(tagged);
  },
  drafted: ({ id }) => table.markUnsaved(id),
});
const posts = createPostsPanel(postsApi, choose, () => apiKey.ready(), table.markUnsaved);
const panel = createUserPanel({
  users,
  editForm,
  posts,
  close: () => navigation.go({ userId: undefined }),
  async remove(tagged) {
    if (!(await apiKey.ready()) || !(await confirmDelete(tagged))) return;
    forgetDraftsOf(tagged.record.id);
    controls.forgetTotal();
    // The browser's Back may have opened another user behind the dialog.
    if (navigation.view.userId === tagged.record.id) navigation.go({ userId: undefined });
    void list.show(undefined);
  },
});

/** Updates every part of the page to the view in the address. */
async function follow() {
  const { userId } = navigation.view;
  controls.follow();
  list.follow();
  table.mark(userId);
  return await panel.open(userId);
}

/** The id of the user that the view in the address opens. */
let opened = navigation.view.userId;
navigation.addEventListener('change', async () => {
  const before = opened;
  opened = navigation.view.userId;
  const moved = await follow();
  if (!moved) return;
  // Move the focus into the opened user, and back to its name in the list when it closes.
  if (opened !== undefined) panel.focus();
  else if (!table.focus(before)) moveFocus(heading);
});

function reload() {
  void list.reload();
  void panel.reload();
  posts.reload();
}

/**
 * Shows a change of another person, or one of this page whose response was lost. New rows are only counted, because
 * they would move the shown rows.
 * @param {Change} change
 */
function apply({ type, version, data, requestid }) {
  const [kind, what] = type.split('.');
  const calls = kind === 'user' ? users : postsApi;
  // After a reconnection, changes arrive that are older than the last save of this page.
  if (what === 'updated' && calls.hasSaved(data, version)) return;
  // A save of this page whose response was lost, was an error, or was no longer awaited.
  if (what === 'updated' && isSent(requestid) && calls.noteSaved(data, version))
    announce('Saved ', nameText(data.name ?? data.title));
  const tagged = { record: data, etag: `"${version}"` };
  const mark = what === 'deleted' ? 'Deleted' : 'Changed';
  if (kind === 'user') controls.markTotal(what);
  if (what === 'created') {
    if (kind !== 'user') posts.add(data);
    else if (list.willShow(data)) feed.add(data.id);
  } else if (kind === 'post') posts.change(tagged, mark);
  else if (kind === 'user') {
    list.update(data, mark);
    if (mark === 'Changed') return panel.change(tagged, isSent(requestid) ? '' : ', by another person');
    feed.remove(data.id);
    markDeleted(data.id);
    if (data.id === opened) void panel.reload();
  }
}

changes.addEventListener('change', (event) => {
  if (event instanceof CustomEvent) apply(event.detail);
});
changes.addEventListener('gone', () => {
  users.forgetSaved();
  postsApi.forgetSaved();
  deletedUsers.clear();
  controls.forgetTotal();
  reload();
});
connection.addEventListener('back', () => {
  changes.reconnect();
  controls.clearTotal();
  reload();
});
byId('refresh-button', HTMLButtonElement).addEventListener('click', () => {
  controls.forgetTotal();
  reload();
});
byId('new-user-button', HTMLButtonElement).addEventListener('click', createUser);
byId('skip-link', HTMLAnchorElement).addEventListener('click', (event) => {
  // The fragment of the address belongs to the view.
  event.preventDefault();
  focusContent();
});

function focusContent() {
  // In a narrow window the open user replaces the list.
  if (heading.checkVisibility()) heading.focus();
  else panel.focus();
}

wireCloseButtons();
createBanner(connection, focusContent);
// Typed text survives a reload, but not closing the tab.
addEventListener('beforeunload', (event) => {
  if (hasDrafts(opened)) event.preventDefault();
});
apiKey.addEventListener('change', reload);
createRequestDock(log);
createLivePanel({ connection, apiKey });
void follow();
