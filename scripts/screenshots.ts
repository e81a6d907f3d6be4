// Takes pictures of the console and the API page, after sending requests for some seconds:
//
//   npm run screenshots -- FOLDER [--seconds 140]
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { createService } from '../src/service/service.ts';
import { closeBrowser, launchBrowser, noBrowser } from '../test/kit/browser.ts';
import { endWith, readArguments } from './harness/arguments.ts';
import { fillWithSamples } from './sample-data.ts';

const sizes = [
  { width: 1600, height: 1000 },
  { width: 360, height: 740 },
];

/**
 * Takes pictures of the console and of the API page, wide and narrow, in light and dark, after some seconds
 * of traffic for the charts.
 */
async function takePictures(folder: string, seconds: number): Promise<void> {
  if (noBrowser !== false) throw new Error(noBrowser);
  await mkdir(folder, { recursive: true });
  await using service = createService({ port: 0, grpcPort: false, database: 'memory:' });
  const { http } = await service.listen();
  await fillWithSamples(http);
  const browser = await launchBrowser();
  const traffic = startTraffic(http);
  const windows = sizes.flatMap((viewport) =>
    (['light', 'dark'] as const).map((colorScheme) => ({ viewport, colorScheme })),
  );
  const taken = windows.map(async ({ viewport, colorScheme }) => {
    const context = await browser.newContext({ viewport, colorScheme });
    const page = await context.newPage();
    const shoot = (name: string) =>
      page.screenshot({ path: join(folder, `${name}-${viewport.width}-${colorScheme}.png`) });
    await page.goto(`${http}/`);
    await wait(seconds * 1_000);
    await shoot('list');
    await page.locator('#user-rows a').nth(2).click();
    await page.locator('.post').first().waitFor();
    await shoot('user');
    await page.goto(`${http}/api.html`);
    await page.locator('article').first().waitFor();
    await shoot('api');
    await context.close();
  });
  await Promise.all(taken);
  traffic.stop();
  await closeBrowser();
}

/** Traffic for the charts: waves of reads with some errors. */
function startTraffic(http: string): { stop(): void } {
  const timer = setInterval(() => {
    const wave = 3 + 2 * Math.sin(Date.now() / 9_000) + 2 * Math.random();
    for (let i = 0; i < wave; i += 1) {
      const id = Math.random() < 0.02 ? 9_999 : 1 + Math.floor(Math.random() * 40);
      void fetch(`${http}/users/${id}`).then((response) => response.arrayBuffer());
    }
  }, 100);
  return { stop: () => clearInterval(timer) };
}

const { positionals, seconds } = readArguments({ seconds: 140 }, { allowPositionals: true });
const [folder] = positionals;
if (folder === undefined) endWith('name the folder for the pictures');
await takePictures(folder, seconds);
