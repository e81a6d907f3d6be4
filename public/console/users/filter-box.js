// @ts-check

const pauseMs = 250;

/**
 * Applies a filter box after a pause in typing, and at once when it is cleared or on Enter. Invalid text has
 * no effect, and the browser shows the reason.
 * @param {HTMLInputElement} input
 * @param {() => void} apply
 */
export function wireFilterBox(input, apply) {
  let timer = 0;

  function applyNow() {
    clearTimeout(timer);
    // Reporting moves the focus to the box. Typing may have left it already.
    if (input.checkValidity()) apply();
    else if (document.activeElement === input) input.reportValidity();
  }

  input.addEventListener('input', () => {
    clearTimeout(timer);
    if (input.value === '') applyNow();
    else timer = setTimeout(applyNow, pauseMs);
  });
  input.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && !event.isComposing) applyNow();
  });
}
