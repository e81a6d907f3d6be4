// @ts-check
import { showDialog } from '../ui/dialog.js';
import { byId, clone, part } from '../ui/dom.js';
import { readFields } from '../ui/form-fields.js';
import { labelOf } from './fields.js';

/** @import { Fields, Merge } from './fields.js' */
/** @import { Choose } from './save.js' */

/**
 * The dialog that shows two changes of the same field to choose one. There is no default.
 * @returns {Choose}
 */
export function createConflictDialog() {
  const dialog = byId('conflict-dialog', HTMLDialogElement);
  const form = byId('conflict-form', HTMLFormElement);
  const place = byId('conflict-fields', HTMLElement);
  let isChosen = false;
  /** @type {Promise<unknown>} */
  let asked = Promise.resolve();

  form.addEventListener('submit', (event) => {
    event.preventDefault();
    isChosen = true;
    dialog.close();
  });

  /** @type {Choose} */
  async function ask(base, mine, theirs) {
    isChosen = false;
    place.replaceChildren(...mine.conflicts.map((name) => choice(name, base, mine, theirs)));
    await showDialog(dialog);
    if (!isChosen) return undefined;
    const answers = readFields(form);
    const taken = Object.entries(theirs).filter(([name]) => answers[name] === 'theirs');
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
