// @ts-check
// Not a module, so that it also runs when a module of the page cannot be loaded.
/** @param {Event} event */
function showLoadFailure(event) {
  // A script that was not received, or one that failed. One of another version may lack an export, for example.
  const isOwn =
    event instanceof ErrorEvent
      ? event.filename.startsWith(location.origin)
      : event.target instanceof HTMLScriptElement;
  if (!isOwn) return;
  const message = document.createElement('p');
  const button = document.createElement('button');
  message.className = 'form-error';
  message.role = 'alert';
  message.textContent = 'The page could not be loaded completely. ';
  button.className = 'button button-small';
  button.textContent = 'Reload';
  button.addEventListener('click', () => location.reload());
  message.append(button);
  document.body.prepend(message);
}

// The event of a script element does not bubble.
addEventListener('error', showLoadFailure, true);
// By now, all scripts have run.
addEventListener('DOMContentLoaded', () => removeEventListener('error', showLoadFailure, true));
