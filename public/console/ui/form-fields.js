// @ts-check

/**
 * What a form's fields hold, by name.
 * @param {HTMLFormElement} form
 * @returns {Record<string, string>}
 */
export function readFields(form) {
  /** @type {Record<string, string>} */
  const fields = {};
  for (const [name, value] of new FormData(form)) {
    // A text area hands its line ends out as CR LF; the API takes LF, and a bare CR for a control character.
    if (typeof value === 'string') fields[name] = value.replaceAll('\r\n', '\n');
  }
  return fields;
}

/**
 * @param {HTMLFormElement} form
 * @param {Readonly<Record<string, string>>} fields
 */
export function writeFields(form, fields) {
  for (const [name, value] of Object.entries(fields)) {
    const control = form.elements.namedItem(name);
    if (control instanceof HTMLInputElement || control instanceof HTMLTextAreaElement) control.value = value;
  }
}

/**
 * Shows that a form's request is under way: its text stays to be read, and is not to be changed.
 * @param {HTMLFormElement} form
 * @param {boolean} busy
 */
export function setBusy(form, busy) {
  form.ariaBusy = String(busy);
  for (const control of form.elements) {
    if (control instanceof HTMLInputElement || control instanceof HTMLTextAreaElement)
      control.readOnly = busy;
    if (control instanceof HTMLButtonElement && control.type === 'submit') {
      control.setAttribute('aria-disabled', String(busy));
    }
  }
}

/** @param {HTMLFormElement} form */
export function isBusy(form) {
  return form.ariaBusy === 'true';
}
