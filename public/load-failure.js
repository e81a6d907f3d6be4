// @ts-check
// Not a module, so that it also runs when a module of the page cannot be loaded.
addEventListener(
  'error',
  ({ target }) => {
    if (!(target instanceof HTMLScriptElement)) return;
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
  },
  // The event does not bubble.
  true,
);
