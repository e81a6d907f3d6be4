// @ts-check

/**
 * Runs a task repeatedly while the page is visible, with a pause after each run.
 * @param {() => Promise<void>} task must never reject
 * @param {number} pauseMs
 * @returns {() => Promise<void>} runs the task now, unless it is running or the page is hidden
 */
export function pollWhileVisible(task, pauseMs) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let running = false;

  async function run() {
    if (running || document.hidden) return;
    running = true;
    clearTimeout(timer);
    await task();
    running = false;
    if (!document.hidden) timer = setTimeout(run, pauseMs);
  }

  document.addEventListener('visibilitychange', () => {
    clearTimeout(timer);
    void run();
  });
  void run();
  return run;
}
