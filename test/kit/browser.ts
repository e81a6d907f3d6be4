import { existsSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';

// The shell is Chromium without windows and menus. Loading a page in it takes two thirds of the processor time.
const installed = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'] as const;

export const chromiumPath =
  process.env['CHROMIUM_PATH'] ?? installed.find((path) => existsSync(path)) ?? installed[0];

/** The reason to skip tests in a browser, or `false`. */
export const noBrowser: string | false = existsSync(chromiumPath)
  ? false
  : `no Chromium at ${chromiumPath}; set CHROMIUM_PATH`;

// Without these options the browser downloads updates and lists while tests run.
const quiet = [
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  // Drawing without a GPU needs less processor time than an emulated GPU.
  '--disable-gpu',
  '--no-first-run',
  '--disable-quic',
  // Each test has a service on another port. This lets a page keep its process when it moves to the next one.
  '--disable-site-isolation-trials',
];

let launched: Promise<Browser> | undefined;

/** The browser of this process. It is launched at the first call. */
export function launchBrowser(): Promise<Browser> {
  // The sandbox of Chromium does not work for root, the usual user of containers.
  const args = process.getuid?.() === 0 ? [...quiet, '--no-sandbox'] : quiet;
  launched ??= chromium.launch({ executablePath: chromiumPath, args });
  return launched;
}

export async function closeBrowser(): Promise<void> {
  await (await launched)?.close();
  launched = undefined;
}
