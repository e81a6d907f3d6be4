import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createService } from '../src/service.ts';
import { closeBrowser, launchBrowser, noBrowser } from '../test/support/browser.ts';
import { fillWithSamples } from './sample-data.ts';

/** Takes pictures of the console and of the API's page, wide and narrow, in light and dark. */
async function takePictures(folder: string): Promise<void> {
  if (noBrowser !== false) throw new Error(noBrowser);
  await mkdir(folder, { recursive: true });
  await using service = createService({ port: 0, grpcPort: false, database: 'memory:' });
  const { http } = await service.listen();
  await fillWithSamples(http);
  const traffic = startTraffic(http);
  const browser = await launchBrowser();
  for (const colorScheme of ['light', 'dark'] as const) {
    for (const [width, height] of [
      [1600, 1000],
      [360, 740],
    ] as const) {
      const context = await browser.newContext({ colorScheme, viewport: { width, height } });
      const page = await context.newPage();
      const shoot = (name: string) =>
        page.screenshot({ path: join(folder, `${name}-${width}-${colorScheme}.png`) });
      await page.goto(`${http}/#/`);
      await page.locator('#user-rows tr').first().waitFor();
      await page.waitForTimeout(4_000);
      await shoot('list');
      await page.goto(`${http}/#/users/3`);
      await page.locator('.post').first().waitFor();
      await page.waitForTimeout(300);
      await shoot('user');
      await page.goto(`${http}/api.html`);
      await page.waitForTimeout(500);
      await shoot('api');
      await context.close();
    }
  }
  traffic.stop();
  await closeBrowser();
}

/** Something for the charts to show: a trickle of reads, with a wrong one now and then. */
function startTraffic(http: string): { stop(): void } {
  const timer = setInterval(() => {
    const wave = 6 + 5 * Math.sin(Date.now() / 3_000);
    for (let i = 0; i < wave; i += 1) {
      const id = Math.random() < 0.02 ? 9_999 : 1 + Math.floor(Math.random() * 40);
      void fetch(`${http}/users/${id}`).then((response) => response.arrayBuffer());
    }
  }, 100);
  return { stop: () => clearInterval(timer) };
}

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error('usage: node scripts/screenshots.ts FOLDER');
await takePictures(folder);
