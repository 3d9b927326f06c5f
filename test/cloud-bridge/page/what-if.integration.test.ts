import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { axeViolationsOf, chromiumProgram, consoleErrorsOf, launchBrowser } from '../../../lab/bench/page/browser.ts'
import { ensureDemoBundle } from '../../../lab/cluster/demo-bundles.ts'
import { startTestBridge, type TestBridge } from '../../support/bridge.ts'
import { isMissing } from '../../support/prerequisites.ts'
import { recordRequests } from '../../support/record-requests.ts'
import { publishFleet } from '../../support/simulated-fleet.ts'
import { type TempDir, tempDir } from '../../support/temp-dir.ts'

const skips = isMissing('Chromium (Debian: apt-get install chromium)', chromiumProgram() !== undefined)
const { BRIM_SCREENSHOTS: pictures } = process.env

let dir: TempDir
let browser: Browser
let bridge: TestBridge
let fleet: AsyncDisposable

beforeAll(async () => {
  if (skips) return
  dir = tempDir()
  browser = await launchBrowser()
  bridge = await startTestBridge({ bundle: await ensureDemoBundle(), stateDir: join(dir.path, 'bridge') })
  fleet = await publishFleet(
    bridge.mqttUrl,
    bridge.modelId,
    Array.from({ length: 12 }, (_, at) => ({ id: `orin-nano-${at}` })),
  )
}, 120_000)
afterAll(async () => {
  if (skips) return
  await browser.close()
  await fleet[Symbol.asyncDispose]()
  await bridge.close()
  dir[Symbol.dispose]()
})

describe.skipIf(skips)('the view “What if”', { timeout: 300_000 }, () => {
  it('says what is missing, simulates what was recorded, and shows what was measured and what assumed', async () => {
    const context = await browser.newContext({ viewport: { width: 1200, height: 860 }, colorScheme: 'light' })
    const page = await context.newPage()
    const errors = consoleErrorsOf(page)
    await page.goto(bridge.httpUrl)
    await page.getByRole('link', { name: 'What if' }).click()
    await page.getByText('Too few: a simulation needs 20').waitFor()
    expect(await page.getByRole('button', { name: 'Simulate' }).isDisabled()).toBe(true)

    await recordRequests(bridge, 60)
    await page.getByText('Too few').waitFor({ state: 'detached' })
    await page.getByLabel('Best by').selectOption('latency')
    await page.getByLabel('server-price').fill('0.15/0.60')
    await page.getByLabel('small-model').fill('brim-demo-slm-deep')
    await page.getByRole('button', { name: 'Simulate' }).click()
    const ended = page.getByRole('heading', { name: /^Best: / }).or(page.locator('.notice.bad'))
    await ended.waitFor({ timeout: 240_000 })
    expect(await ended.innerText()).toMatch(/^Best: /)
    const table = page.getByLabel('Ways of answering')
    for (const way of ['cloud', 'private (HAT)', 'local', 'cheap'])
      await table
        .getByRole('cell', { name: way, exact: true })
        .or(table.getByRole('cell', { name: `→ ${way}` }))
        .first()
        .waitFor()
    const known = (option: string) =>
      page
        .getByLabel('What goes in')
        .getByRole('row')
        .filter({ has: page.getByLabel(option, { exact: true }) })
        .innerText()
    expect(await known('devices')).toMatch(/12\s+measured\s+connected now/)
    expect(await known('gpu')).toMatch(/bridge\.yaml\s+measured/)
    expect(await known('server-price')).toMatch(/0\.15\/0\.60\s+chosen/)
    expect(await known('replicas')).toMatch(/1\s+assumed/)
    await page.getByText('agent.yaml').click()
    await page.locator('details[open] pre', { hasText: 'is best for latency' }).waitFor()
    await page.getByText('agent.yaml').click()
    expect(await axeViolationsOf(page)).toEqual([])
    const folder = pictures ?? join(dir.path, 'pictures')
    mkdirSync(folder, { recursive: true })
    await page.screenshot({ path: join(folder, 'what-if.png') })
    expect(errors).toEqual([])
    await context.close()
  })

  it('stops a simulation, and shows why one cannot begin', async () => {
    const context = await browser.newContext({ colorScheme: 'dark', viewport: { width: 400, height: 800 } })
    const page = await context.newPage()
    await recordRequests(bridge, 60)
    await page.goto(`${bridge.httpUrl}/#/what-if`)
    await page.getByLabel('devices', { exact: true }).fill('5000')
    await page.getByRole('button', { name: 'Simulate' }).click()
    await page.getByRole('button', { name: 'Stop' }).click()
    await expect.poll(() => page.getByRole('button', { name: 'Simulate' }).isEnabled()).toBe(true)
    await page.getByLabel('devices', { exact: true }).fill('')
    await page.getByLabel('gpu', { exact: true }).fill('h1000')
    // The bridge may still be ending the first one.
    await expect
      .poll(
        async () => {
          await page.getByRole('button', { name: 'Simulate' }).click()
          await page.locator('.notice.bad').waitFor()
          return page.locator('.notice.bad').innerText()
        },
        { timeout: 60_000 },
      )
      .toContain('h1000')
    expect(await axeViolationsOf(page)).toEqual([])
    await context.close()
  })
})
