// @ts-check
import { local } from '../console/ui/memory.js';
import { languages } from './languages.js';

const name = 'language';

/** The language of all examples on the page, remembered by the browser. Event: `change`. */
export class LanguageChoice extends EventTarget {
  get value() {
    return local.read(name) ?? languages[0]?.name;
  }

  set value(value) {
    local.write(name, value);
    this.dispatchEvent(new Event('change'));
  }
}
