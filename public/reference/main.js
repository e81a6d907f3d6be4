// @ts-check
import { apiUrl } from '../console/api/connection.js';
import { createApiKey } from '../console/ui/api-key.js';
import { byId, el, wireCloseButtons } from '../console/ui/dom.js';
import { clearState, showState } from '../console/ui/messages.js';
import { showContents } from './contents.js';
import { ApiDocument, isObject, object, text } from './document.js';
import { paragraphs, withWholeOptions } from './elements.js';
import { operationView } from './operation-view.js';
import { LanguageChoice } from './samples.js';

const apiKey = createApiKey();
const context = { choice: new LanguageChoice(), apiKey };
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

/** Reads the description. Its error messages are shown to the user. */
async function fetchDescription() {
  const url = apiUrl('openapi.json');
  const response = await fetch(url).catch((cause) => {
    throw new Error('The service does not respond.', { cause });
  });
  if (response.status === 404) {
    throw new Error(`This service has no ${url.pathname}: its public folder lacks the file.`);
  }
  if (!response.ok) throw new Error(`The service responded with ${response.status} to ${url.pathname}.`);
  const root = await response.json().catch((cause) => {
    throw new Error(`${url.pathname} is not JSON.`, { cause });
  });
  if (!isObject(root) || !isObject(root['paths']))
    throw new Error(`${url.pathname} is not an OpenAPI description.`);
  return root;
}

/** @param {ApiDocument} description */
function show(description) {
  const info = object(description.root, 'info');
  byId('reference-title', HTMLElement).textContent = text(info, 'title') || 'The API';
  byId('reference-facts', HTMLElement).textContent =
    `Version ${text(info, 'version')} · OpenAPI ${text(description.root, 'openapi')} ·`;
  byId('reference-intro', HTMLElement).replaceChildren(...paragraphs(text(info, 'description')));
  showClients();
  const groups = description.groups.map(({ name, description: words, operations }) => {
    const views = operations.map((operation) => operationView(description, operation, context));
    return el('section', { 'aria-label': name }, el('h2', {}, name), ...paragraphs(words), ...views);
  });
  byId('reference-groups', HTMLElement).replaceChildren(...groups);
  showContents(description);
  // The browser looked for the fragment of the address before the page had its content.
  document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

/** Shows how to generate clients, with the addresses of the descriptions that this service serves. */
function showClients() {
  const clients = byId('clients', HTMLElement);
  for (const code of clients.querySelectorAll('pre code')) {
    const command = code.textContent.replace(/{(.+)}/, (_, file) => apiUrl(file).href);
    code.replaceChildren(...withWholeOptions(command));
  }
  clients.hidden = false;
}

wireCloseButtons();
void load();
