import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { after, afterEach, type TestContext } from 'node:test';
import { type Browser, chromium, type Page } from 'playwright-core';

export const chromiumPath = process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium';

/** Why tests in a browser cannot run here; `false` when they can. */
export const noBrowser: string | false = existsSync(chromiumPath)
  ? false
  : `no Chromium at ${chromiumPath}; set CHROMIUM_PATH`;

// Without these Chromium asks the network for updates and lists while tests run.
const quiet = [
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  // Drawing by the processor itself takes less of it than a graphics card that is emulated.
  '--disable-gpu',
  '--no-first-run',
  '--disable-quic',
  // Every test has a service on a port of its own: a page keeps its process when it moves to the next.
  '--disable-site-isolation-trials',
];

// Far beyond what any step takes: where it is reached, it never comes.
const patienceMs = 60_000;

let launched: Promise<Browser> | undefined;

/** The browser of this process, launched when first asked for. */
export function launchBrowser(): Promise<Browser> {
  // Chromium's sandbox refuses to run as root, which containers usually are.
  const args = process.getuid?.() === 0 ? [...quiet, '--no-sandbox'] : quiet;
  launched ??= chromium.launch({ executablePath: chromiumPath, args });
  return launched;
}

export async function closeBrowser(): Promise<void> {
  await (await launched)?.close();
  launched = undefined;
}

export interface PageOptions {
  readonly width?: number;
  readonly height?: number;
  readonly colorScheme?: 'light' | 'dark';
  readonly reducedMotion?: 'reduce' | 'no-preference';
  /** Runs in each page before its own scripts. */
  readonly initScript?: string;
  /** A window that no other test uses: for a test that installs a clock or grants a permission. */
  readonly fresh?: boolean;
}

/** Opens a page for a test. The file's browser closes after its last test. */
export function useBrowser(): (t: TestContext, url: string, options?: PageOptions) => Promise<Page> {
  const endings = new Map<string, (() => Promise<void>)[]>();
  // Navigating a used page costs half as much as opening a new one.
  const idle: Page[] = [];
  after(closeBrowser);
  // Before the test's own endings, one of which stops the server that the page asks.
  afterEach(async (t) => {
    for (const end of endings.get(t.fullName) ?? []) await end();
  });
  return async (t, url, options = {}) => {
    const { width = 1280, height = 900, initScript, colorScheme = 'light' } = options;
    // Motion only makes a test wait, and axe sees colours half way through it.
    const { reducedMotion = 'reduce' } = options;
    const fresh = options.fresh === true || initScript !== undefined;
    const page = (fresh ? undefined : idle.pop()) ?? (await newPage(initScript));
    const problems = watch(page);
    endings.set(t.fullName, [
      ...(endings.get(t.fullName) ?? []),
      async () => {
        if (fresh) await page.context().close();
        else await reset(page);
        if (!fresh && !page.isClosed()) idle.push(page);
        assert.deepEqual(problems, [], 'the page reported no errors');
      },
    ]);
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme, reducedMotion, forcedColors: 'none' });
    await page.goto(url);
    return page;
  };
}

async function newPage(initScript: string | undefined): Promise<Page> {
  const context = await (await launchBrowser()).newContext();
  context.setDefaultTimeout(patienceMs);
  if (initScript !== undefined) await context.addInitScript({ content: initScript });
  return context.newPage();
}

/** Removes from a page everything that a test may leave behind. */
async function reset(page: Page): Promise<void> {
  for (const other of page.context().pages()) if (other !== page) await other.close();
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  if (page.url().startsWith('http')) {
    // By the page itself: a navigation from outside would start another process for it.
    await page.evaluate("sessionStorage.clear(); localStorage.clear(); location.replace('about:blank')");
    await page.waitForURL('about:blank');
  }
  page.removeAllListeners();
}

const away = new Set<string>();

/** From now on the server at this address may be missed by pages: the test stops it or cuts its answers. */
export function expectAway(t: TestContext, http: string): void {
  away.add(http);
  t.after(() => away.delete(http));
}

/** Collects what a page complains of: exceptions, refusals by its Content-Security-Policy, missing files. */
function watch(page: Page): string[] {
  const problems: string[] = [];
  page.on('pageerror', (error) => problems.push(String(error)));
  page.on('console', (message) => {
    if (message.type() !== 'error' && message.type() !== 'warning') return;
    const { url } = message.location();
    // The browser's own line for every answer above 399: a test that provokes one looks at the page.
    const ofAnswer = message.text().startsWith('Failed to load resource');
    const ofNone = ofAnswer && message.text().includes('net::');
    if (ofNone ? away.has(new URL(url).origin) : ofAnswer && !/\.(css|js|svg)$/.test(url)) return;
    problems.push(`${message.text()} ${url}`);
  });
  return problems;
}
