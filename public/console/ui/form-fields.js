// @ts-check

/**
 * The values of the fields of a form, by name.
 * @param {HTMLFormElement} form
 * @returns {Record<string, string>}
 */
export function readFields(form) {
  /** @type {Record<string, string>} */
  const fields = {};
  for (const [name, value] of new FormData(form)) {
    // A text area uses CR LF for line breaks. The API accepts LF, and rejects CR as a control character.
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
 * Shows that the request of a form is running. Its text stays readable but cannot be changed.
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
