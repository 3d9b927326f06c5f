import { readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import type { Page } from 'playwright-core'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { projectRoot } from '../../../core/kit/base/version.ts'
import { ensureDemoBundle } from '../../cluster/demo-bundles.ts'
import { portOf } from '../../cluster/relay.ts'
import type { BenchContext } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import { loadText, machineText } from '../../frame/page.ts'
import { barPanel } from '../../frame/panels.ts'
import { maxOf, medianOrNull, sum } from '../../frame/statistics.ts'
import { tabledBench } from '../../frame/tabled-bench.ts'
import { tableOf, toDigits } from '../../frame/tables.ts'
import { type FleetCluster, startFleetCluster } from '../fleet/cluster.ts'
import { Load } from '../fleet/load.ts'
import { axeViolationsOf, consoleErrorsOf, launchBrowser } from './browser.ts'

/** The page as it is opened, and after it has followed a fleet over a lost network and a killed bridge. */
export interface PageRun {
  readonly devices: number
  /** From the start of the navigation until the rows are in the document, of each view. */
  readonly firstViewMs: readonly number[]
  /** Of live objects. */
  readonly heapMb: number
  /** Changes of devices that the list does not show in the end. */
  readonly eventsLost: number
  readonly axeViolations: readonly string[]
  readonly consoleErrors: readonly string[]
  /** Of all files of the page. */
  readonly gzippedKb: number
}

export interface PagePlan {
  /** Folder of a split bundle. */
  readonly bundle: string
  readonly devices: number
  readonly views: number
  /** How long the page follows the fleet before its memory is measured. */
  readonly followS: number
  readonly sampleEveryS: number
}

/** The views that axe examines, besides the fleet. */
const otherViews = ['chat', 'answers', 'jobs', 'rollouts', 'device/bench-00001'] as const
const [connectWithinMs, shownWithinMs, pollMs] = [60_000, 30_000, 100]

export const pageBench = tabledBench<PageRun>({
  name: 'page',
  title: 'The page',
  contents: 'every run',
  figureText: 'Time until the fleet is shown, of each view',
  quickRepetitions: 2,
  figures: {
    firstViewMs: [(runs) => medianOrNull(runs.flatMap(({ firstViewMs }) => firstViewMs)), { max: 1_000 }],
    heapMb: [(runs) => maxOf(runs.map(({ heapMb }) => heapMb)), { max: 64 }],
    eventsLost: [(runs) => sum(runs.map(({ eventsLost }) => eventsLost)), { max: 0 }],
    axeViolations: [(runs) => sum(runs.map(({ axeViolations }) => axeViolations.length)), { max: 0 }],
    consoleErrors: [(runs) => sum(runs.map(({ consoleErrors }) => consoleErrors.length)), { max: 0 }],
    gzippedKb: [(runs) => runs[0]?.gzippedKb ?? null, { max: 300 }],
  },
  async measure(context) {
    const bundle = await ensureDemoBundle()
    const plan = { bundle, devices: 1_000, views: context.quick ? 3 : 10, followS: context.quick ? 5 : 30, sampleEveryS: 10 }
    return measurePage(plan, context)
  },
  show(document) {
    const { runs } = document
    return {
      figure: {
        title: 'The page of a bridge',
        subtitle: `${runs[0]?.devices ?? 0} devices`,
        columns: 1,
        panels: [
          barPanel(
            'Until the fleet is shown',
            'ms',
            runs.flatMap(({ firstViewMs }) => firstViewMs.map((ms, view) => [`view ${view + 1}`, 'page', ms] as const)),
          ),
        ],
      },
      tables: [
        tableOf('Runs', runs, [
          ['devices', ({ devices }) => String(devices)],
          ['first view ms', ({ firstViewMs }) => firstViewMs.map((ms) => toDigits(ms, 0)).join(' ')],
          ['heap MB', ({ heapMb }) => toDigits(heapMb, 1)],
          ['events lost', ({ eventsLost }) => String(eventsLost)],
          ['axe', ({ axeViolations }) => axeViolations.join('; ') || 'none'],
          ['console errors', ({ consoleErrors }) => consoleErrors.join('; ') || 'none'],
          ['gzip KB', ({ gzippedKb }) => toDigits(gzippedKb, 1)],
        ]),
      ],
      conditions: `${machineText(document)}; ${loadText(document)}. A \`brim bridge run\` process, simulated devices in another one,
and Debian's Chromium without a window on the same cores.

- *firstViewMs*: from the start of the navigation until the rows are in the document, files revalidated; each view in a new tab.
- *heapMb*: live objects of the tab after it has followed the fleet.
- *eventsLost*: a third of some devices is labelled while the page is connected, a third while it is offline, a third after the
  bridge was killed and started again. Counted is what the list then lacks, and devices whose state differs from the bridge's.
- *axeViolations*: WCAG 2.2 A and AA and axe-core's best practices, of every view in light and dark.
- *consoleErrors*: without the browser's own lines on requests that reached no server.`,
    }
  },
})

export const command = benchCommand(pageBench)

/** @throws BrimError PREREQUISITE_MISSING without a browser */
export async function measurePage(plan: PagePlan, context: BenchContext) {
  const { io, progress } = context
  const browser = await launchBrowser()
  try {
    progress(`connecting ${plan.devices} devices`)
    await using cluster = await startFleetCluster({ ...plan, broker: 'embedded', io })
    const { hostname: host } = new URL(cluster.mqttUrl)
    const { sampleEveryS } = plan
    const simulated = { host, port: portOf(cluster.mqttUrl), fleet: 'default', bridge: 'bridge', sampleEveryS }
    await using load = await Load.open(1, simulated, io)
    await load.start(plan.devices, 2_000)
    await until(connectWithinMs, io.signal, async () => (await cluster.readyDevices()) === plan.devices)
    const firstViewMs: number[] = []
    for (let view = 0; view < plan.views; view++) {
      const page = await browser.newPage()
      await page.goto(cluster.httpUrl)
      await page.locator('.table-rows .id').first().waitFor()
      firstViewMs.push(await page.evaluate<number>(`performance.getEntriesByName('brim-fleet-shown')[0].startTime`))
      await page.close()
    }
    progress(`first view ${firstViewMs.map((ms) => ms.toFixed(0)).join(' ')} ms`)
    const page = await browser.newPage()
    const consoleErrors = consoleErrorsOf(page)
    await page.goto(cluster.httpUrl)
    await systemClock.sleep(plan.followS * 1_000, io.signal)
    const heapMb = await heapOf(page)
    const eventsLost = await lostEvents(page, cluster, load.ids(), io.signal)
    progress(`${heapMb.toFixed(1)} MB, ${eventsLost} events lost`)
    const axeViolations = await violationsOf(page)
    const run = { devices: plan.devices, firstViewMs, heapMb, eventsLost, axeViolations, consoleErrors, gzippedKb: gzippedKb() }
    return { conditions: { devices: plan.devices, sampleEveryS, browser: browser.version() }, runs: [run] }
  } finally {
    await browser.close()
  }
}

async function heapOf(page: Page): Promise<number> {
  const devtools = await page.context().newCDPSession(page)
  await devtools.send('HeapProfiler.collectGarbage')
  const { usedSize } = await devtools.send('Runtime.getHeapUsage')
  return usedSize / 2 ** 20
}

/** Labels devices while the page is connected, offline, and after the bridge was killed. @returns what it does not show then */
async function lostEvents(page: Page, cluster: FleetCluster, ids: readonly string[], signal: AbortSignal): Promise<number> {
  const each = Math.max(1, Math.floor(ids.length / 10))
  const label = async (third: number) => {
    for (const id of ids.slice(third * each, (third + 1) * each))
      await fetch(`${cluster.httpUrl}/v1/devices/${id}/labels`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ set: { site: 'lab' } }),
        signal,
      })
  }
  await label(0)
  await page.context().setOffline(true)
  await label(1)
  await page.context().setOffline(false)
  await cluster.restartBroker()
  await label(2)
  await until(connectWithinMs, signal, async () => (await cluster.readyDevices()) === ids.length)
  await page.getByLabel('Filter').fill('ready site=lab')
  const labelled = async () => Number.parseInt(await page.locator('.bar [aria-live]').innerText(), 10)
  await until(shownWithinMs, signal, async () => (await labelled()) === 3 * each).catch(() => {})
  const lost = 3 * each - (await labelled())
  await page.getByLabel('Filter').fill('ready')
  const ready = async () => Number.parseInt(await page.locator('.bar [aria-live]').innerText(), 10)
  await until(shownWithinMs, signal, async () => (await ready()) === ids.length).catch(() => {})
  return lost + ids.length - (await ready())
}

async function violationsOf(page: Page): Promise<string[]> {
  const found: string[] = []
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme })
    for (const view of ['fleet', ...otherViews]) {
      await page.evaluate(`location.hash = '#/${view}'`)
      await page.locator('main h1').first().waitFor({ state: 'attached' })
      found.push(...(await axeViolationsOf(page)).map((violation) => `${view}, ${colorScheme}: ${violation}`))
    }
  }
  return found
}

const gzippedKb = (): number =>
  ['index.html', 'main.js', 'style.css', 'icon.svg'].reduce(
    (bytes, name) => bytes + gzipSync(readFileSync(new URL(`dist/page/${name}`, projectRoot))).length,
    0,
  ) / 1_000

/** @throws Error where it is not so in time */
async function until(withinMs: number, signal: AbortSignal, isSo: () => Promise<boolean>): Promise<void> {
  const startedMs = systemClock.nowMs()
  while (!(await isSo())) {
    if (systemClock.nowMs() - startedMs > withinMs) throw new Error(`not so within ${withinMs} ms`)
    await systemClock.sleep(pollMs, signal)
  }
}
