import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, afterEach, type TestContext } from 'node:test';
import type { Page } from 'playwright-core';
import { closeBrowser, launchBrowser } from '../kit/browser.ts';

// Much longer than any step takes.
const patienceMs = 60_000;

export interface PageOptions {
  readonly width?: number;
  readonly height?: number;
  readonly colorScheme?: 'light' | 'dark';
  readonly reducedMotion?: 'reduce' | 'no-preference';
  /** Runs in each page before the scripts of the page. */
  readonly initScript?: string;
  /** Whether the page has a clock that the test can stop. Until then the clock runs. */
  readonly clock?: boolean;
  /** A window that no other test uses, for a test that closes it or uses its clock much. */
  readonly fresh?: boolean;
  /** The page beside which this one is another tab. It has its files. */
  readonly beside?: Page;
}

interface Window {
  readonly page: Page;
  /** The addresses of services whose files it has. */
  readonly origins: Set<string>;
  readonly clock: boolean;
}

const idle: Window[] = [];

// Drawing takes a fifth of the processor time, and no test looks at pixels. An invisible page has the same layout,
// focus and events. The policy of the pages allows style sheets of scripts.
const undrawn = `
  document.adoptedStyleSheets = [new CSSStyleSheet()];
  document.adoptedStyleSheets[0].replaceSync('html { opacity: 0 }');
`;

// A page removes a message after 5 s. On a slow machine, a test may look for it later, so it is only marked.
const lasting = `{
  const { remove } = Element.prototype;
  Element.prototype.remove = function () {
    if (this.matches('.toast')) this.dataset.removed = '';
    else remove.call(this);
  };
}`;

// A message waits until the one before it could be read. The test of this pause has a clock; all others only wait.
const messages = readFileSync(new URL('../../public/console/ui/messages.js', import.meta.url), 'utf8');
const pauseMs = /^const shortestToastMs = (.+);$/m.exec(messages)?.[1];
assert.ok(pauseMs, 'messages.js has the length of this pause');
const hasty = `{
  const { setTimeout } = globalThis;
  globalThis.setTimeout = (task, ms, ...values) => setTimeout(task, ms === ${pauseMs} ? 0 : ms, ...values);
}`;

// All suites of this process share one browser and its pages.
after(closeBrowser);

// Navigating a used page costs half as much as opening a new one, and less if it has the files of this origin.
function takeIdle(url: string, clock: boolean): Window | undefined {
  const usable = idle.filter((window) => window.clock === clock);
  const taken = usable.find(({ origins }) => origins.has(new URL(url).origin)) ?? usable[0];
  if (taken !== undefined) idle.splice(idle.indexOf(taken), 1);
  return taken;
}

/** Whether a page that no test uses has the files of a service at this port. */
export function isKnown(port: number): boolean {
  return idle.some(({ origins }) => origins.has(`http://127.0.0.1:${port}`));
}

/** Opens pages for the tests of a suite. */
export function useBrowser(): (t: TestContext, url: string, options?: PageOptions) => Promise<Page> {
  const endings = new Map<string, (() => Promise<void>)[]>();
  // This hook runs before those of the test, one of which stops the server of the page.
  afterEach(async (t) => {
    for (const end of endings.get(t.fullName) ?? []) await end();
  });
  return async (t, url, options = {}) => {
    const { width = 1280, height = 900, colorScheme = 'light', clock = false, fresh = false } = options;
    const { beside } = options;
    // Animations delay tests, and axe would check colours in the middle of one.
    const { reducedMotion = 'reduce' } = options;
    const used = fresh || beside ? undefined : takeIdle(url, clock);
    const page = used?.page ?? (await (beside?.context().newPage() ?? newPage(clock)));
    const initScript = options.initScript && (await page.addInitScript({ content: options.initScript }));
    const problems = watch(page);
    // As long as a page has a route, it keeps no files, and each of its requests waits for this process.
    t.afterEach(() => page.unrouteAll({ behavior: 'ignoreErrors' }));
    endings.set(t.fullName, [
      ...(endings.get(t.fullName) ?? []),
      async () => {
        const { origin } = new URL(page.url());
        if (initScript) await initScript.dispose();
        if (fresh) await page.context().close();
        else if (beside) await page.close();
        else await reset(page, clock);
        const origins = new Set(used?.origins).add(origin);
        if (!fresh && !page.isClosed()) idle.push({ page, origins, clock });
        assert.deepEqual(problems, [], 'the page reported no errors');
      },
    ]);
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ media: 'screen', colorScheme, reducedMotion, forcedColors: 'none' });
    await page.goto(url);
    return page;
  };
}

async function newPage(clock: boolean): Promise<Page> {
  const context = await (await launchBrowser()).newContext();
  context.setDefaultTimeout(patienceMs);
  await context.addInitScript({ content: undrawn + lasting });
  // A clock cannot be removed from a window, so only tests with a clock use this window again.
  if (clock) await context.clock.install();
  else await context.addInitScript({ content: hasty });
  return context.newPage();
}

/** Removes everything from a page that a test may have left. */
async function reset(page: Page, clock: boolean): Promise<void> {
  for (const other of page.context().pages()) if (other !== page) await other.close();
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  await page.context().clearPermissions();
  if (clock) await page.clock.resume();
  if (page.url().startsWith('http')) {
    // The page navigates itself, because a navigation from outside would start another process.
    await page.evaluate("sessionStorage.clear(); localStorage.clear(); location.replace('about:blank')");
    await page.waitForURL('about:blank');
  }
  page.removeAllListeners();
  // Playwright would still create an object for each request, although nothing listens.
  page.off('request', () => undefined);
}

const away = new Set<string>();

/** Allows failed requests of pages to this address, because the test stops the server or its responses. */
export function expectAway(t: TestContext, http: string): void {
  away.add(http);
  t.after(() => away.delete(http));
}

/** Collects the errors of a page: exceptions, violations of its Content-Security-Policy, missing files. */
function watch(page: Page): string[] {
  const problems: string[] = [];
  page.on('pageerror', (error) => problems.push(String(error)));
  page.on('console', (message) => {
    if (message.type() !== 'error' && message.type() !== 'warning') return;
    const { url } = message.location();
    // The browser logs a line for every status above 399. Tests that cause one check the page instead.
    const ofAnswer = message.text().startsWith('Failed to load resource');
    const ofNone = ofAnswer && message.text().includes('net::');
    if (ofNone ? away.has(new URL(url).origin) : ofAnswer && !/\.(css|js|svg)$/.test(url)) return;
    problems.push(`${message.text()} ${url}`);
  });
  return problems;
}
