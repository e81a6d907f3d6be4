// @ts-check
import { apiUrl } from '../console/api/base.js';
import { byId, el } from '../console/ui/dom.js';
import { clearState, showState } from '../console/ui/states.js';
import { showContents } from './contents.js';
import { ApiDocument } from './document.js';
import { isObject, object, text } from './json.js';
import { operationView } from './operation-view.js';
import { paragraphs } from './prose.js';

const state = byId('reference-state', HTMLElement);
const body = byId('reference', HTMLElement);

async function load() {
  clearState(state);
  body.ariaBusy = 'true';
  try {
    const root = await fetchDescription();
    show(new ApiDocument(root));
  } catch (error) {
    const action = { label: 'Try again', act: load };
    showState(state, 'The description cannot be shown', error instanceof Error ? error.message : '', action);
    state.firstElementChild?.setAttribute('role', 'alert');
  }
  body.ariaBusy = 'false';
}

/** Fails with words for the reader. */
async function fetchDescription() {
  const url = apiUrl('openapi.json');
  const response = await fetch(url).catch((cause) => {
    throw new Error('The server does not answer.', { cause });
  });
  if (response.status === 404) {
    throw new Error(
      `This server has no ${url.pathname}: it was started with a public folder that lacks the file.`,
    );
  }
  if (!response.ok) throw new Error(`The server answered ${response.status} for ${url.pathname}.`);
  const root = await response.json().catch((cause) => {
    throw new Error(`${url.pathname} is not JSON.`, { cause });
  });
  if (!isObject(root) || !isObject(root['paths']))
    throw new Error(`${url.pathname} is no OpenAPI description.`);
  return root;
}

/** @param {ApiDocument} description */
function show(description) {
  const info = object(description.root, 'info');
  byId('reference-title', HTMLElement).textContent = text(info, 'title') || 'The API';
  byId('reference-facts', HTMLElement).textContent =
    `Version ${text(info, 'version')} · OpenAPI ${text(description.root, 'openapi')} ·`;
  byId('reference-intro', HTMLElement).replaceChildren(...paragraphs(text(info, 'description')));
  const groups = description.groups.map(({ name, description: words, operations }) => {
    const heading = el('h2', {}, name);
    const views = operations.map((operation) => operationView(description, operation));
    return el('section', { class: 'group', 'aria-label': name }, heading, ...paragraphs(words), ...views);
  });
  byId('reference-groups', HTMLElement).replaceChildren(...groups);
  showContents(description);
  // The browser looked for the address's fragment before there was anything to find.
  document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

void load();
