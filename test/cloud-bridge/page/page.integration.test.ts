import { mkdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, BrowserContext, Locator, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Agent, startAgent } from '../../../agent/agent.ts'
import { openIdentityStore } from '../../../cloud-bridge/identity/store.ts'
import type { DisclosureList } from '../../../core/wire/protocol/disclosures.ts'
import type { AuditLine } from '../../../core/wire/protocol/http/admin.ts'
import type { DeviceDetails } from '../../../core/wire/protocol/http/devices.ts'
import type { JobDetails } from '../../../core/wire/protocol/http/jobs.ts'
import type { Rollout } from '../../../core/wire/protocol/http/rollouts.ts'
import { axeViolationsOf, chromiumProgram, consoleErrorsOf, launchBrowser } from '../../../lab/bench/page/browser.ts'
import { ensureDemoBundle } from '../../../lab/cluster/demo-bundles.ts'
import { portOf } from '../../../lab/cluster/relay.ts'
import { startTestBridge, type TestBridge } from '../../support/bridge.ts'
import { brim } from '../../support/brim.ts'
import { captureIo } from '../../support/captured-io.ts'
import { enrolDevice } from '../../support/enrol-device.ts'
import { isMissing } from '../../support/prerequisites.ts'
import { publishFleet } from '../../support/simulated-fleet.ts'
import { type TempDir, tempDir } from '../../support/temp-dir.ts'

const skips = isMissing('Chromium (Debian: apt-get install chromium)', chromiumProgram() !== undefined)

/** `BRIM_SCREENSHOTS=docs/page npx vitest run test/cloud-bridge/page` makes the pictures of docs/page.md again. */
const { BRIM_SCREENSHOTS: pictures } = process.env
const maxPictureBytes = 200_000

let dir: TempDir
let browser: Browser
/** With a model, two agents and simulated devices; without authentication. */
let bridge: TestBridge
let agents: readonly Agent[]
let fleet: AsyncDisposable
const open: BrowserContext[] = []

const startOpenBridge = (ports: object = {}) =>
  ensureDemoBundle().then((bundle) => startTestBridge({ bundle, stateDir: join(dir.path, 'bridge'), ...ports }))

const startDevice = async (id: string, mqttUrl: string) =>
  startAgent({
    id,
    stateDir: join(dir.path, id),
    bundle: await ensureDemoBundle(),
    slms: [await ensureDemoBundle('slm-deep')],
    bridges: [mqttUrl],
    server: { at: 'bridge', price: '0.15/0.60' },
    apiPort: 0,
    threads: 1,
    logLevel: 'silent',
    telemetryS: 1,
  })

beforeAll(async () => {
  if (skips) return
  dir = tempDir()
  browser = await launchBrowser()
  bridge = await startOpenBridge()
  agents = await Promise.all(['jetson-01', 'jetson-02'].map((id) => startDevice(id, bridge.mqttUrl)))
  fleet = await publishFleet(bridge.mqttUrl, bridge.modelId, [
    { id: 'orin-nano-03', samples: 90 },
    {
      id: 'orin-nano-04',
      condition: { throttling: { isThrottled: true, causes: ['<img src=x onerror=alert(1)>\u202e\u0007'] } },
    },
    { id: 'agx-orin-05', state: 'lost' },
    {
      id: 'phone-06',
      condition: { battery: { levelPercent: 11, state: 'discharging', powerW: 2.1, tempC: 31, isPlugged: false } },
    },
    ...Array.from({ length: 60 }, (_, at) => ({ id: `orin-nano-${at + 10}` })),
  ])
  for (const id of ['orin-nano-03', 'orin-nano-04', 'agx-orin-05'])
    await call(bridge, `/v1/devices/${id}/labels`, { set: { site: 'lab' } })
}, 120_000)
afterEach(async () => {
  for (const context of open.splice(0)) await context.close()
})
afterAll(async () => {
  if (skips) return
  await browser.close()
  await fleet[Symbol.asyncDispose]()
  await Promise.all(agents.map((agent) => agent.close()))
  await bridge.close()
  dir[Symbol.dispose]()
})

async function call<T>({ httpUrl }: Pick<TestBridge, 'httpUrl'>, path: string, body?: object, key?: string): Promise<T> {
  const headers = { 'content-type': 'application/json', ...(key !== undefined && { authorization: `Bearer ${key}` }) }
  const response = await fetch(httpUrl + path, body ? { method: 'POST', headers, body: JSON.stringify(body) } : { headers })
  if (!response.ok) throw new Error(await response.text())
  return (await response.json()) as T
}

interface Opened {
  readonly page: Page
  readonly errors: readonly string[]
}

async function visit(url: string, options: Parameters<Browser['newContext']>[0] = {}): Promise<Opened> {
  const context = await browser.newContext({ viewport: { width: 1200, height: 720 }, colorScheme: 'light', ...options })
  open.push(context)
  const page = await context.newPage()
  const errors = consoleErrorsOf(page)
  await page.goto(url)
  return { page, errors }
}

async function takePicture(page: Page, name: string): Promise<void> {
  const folder = pictures ?? join(dir.path, 'pictures')
  mkdirSync(folder, { recursive: true })
  const path = join(folder, `${name}.png`)
  await page.screenshot({ path })
  expect(statSync(path).size).toBeLessThan(maxPictureBytes)
}

const shownIds = (page: Page) => page.locator('.table-rows .id').allInnerTexts()
const ask = async (page: Page, question: string) => {
  // Its place, since the last card is that of the turn before until the page has rendered this one.
  const turn = page.locator('.turns > .card').nth(await page.locator('.turns > .card').count())
  await page.getByLabel('Question').fill(question)
  await page.getByLabel('Question').press('Enter')
  await turn.locator('p.figures', { hasText: 'in all' }).waitFor()
  return turn
}

/** How the answer of a turn was made. */
async function traceOf(turn: Locator): Promise<string> {
  await turn.locator('summary').click()
  const trace = turn.locator('details[open] .trace')
  await trace.waitFor()
  return trace.innerText()
}

describe.skipIf(skips)('the page in a browser', { timeout: 60_000 }, () => {
  it('shows the fleet, problems first, with only the rows in view, and filters and groups it', async () => {
    const { page, errors } = await visit(bridge.httpUrl)
    await page.locator('.table-rows .id').first().waitFor()
    await expect.poll(async () => (await shownIds(page)).slice(0, 3)).toEqual(['agx-orin-05', 'orin-nano-04', 'phone-06'])
    await page.getByRole('button', { name: '1 lost' }).waitFor()
    await expect.poll(() => page.locator('.table').getAttribute('aria-rowcount')).toBe('67')
    expect((await shownIds(page)).length).toBeLessThan(50)
    await takePicture(page, 'fleet')
    await page.evaluate('document.querySelector(".table-body").scrollTo(0, 1e6)')
    await expect.poll(async () => (await shownIds(page)).at(-1)).toBe('orin-nano-69')
    await page.getByLabel('Filter').fill('site=lab')
    await expect.poll(() => shownIds(page)).toEqual(['agx-orin-05', 'orin-nano-04', 'orin-nano-03'])
    await page.getByLabel('Group by').selectOption('site')
    await expect.poll(() => page.locator('.table-rows .group').allInnerTexts()).toEqual(['site=lab 3'])
    await page.getByLabel('Filter').fill('')
    await page.getByRole('button', { name: '1 battery low' }).click()
    await expect.poll(() => shownIds(page)).toEqual(['phone-06'])
    expect(errors).toEqual([])
  })

  it('shows one device: its history, its log and its jobs', async () => {
    const { id } = await call<{ id: string }>(bridge, '/v1/jobs', {
      kind: 'slm.generate',
      input: { prompt: 'Is it far?', maxTokens: 4 },
      device: 'jetson-01',
    })
    const { page, errors } = await visit(`${bridge.httpUrl}/#/device/orin-nano-03`, { colorScheme: 'dark' })
    await page.locator('.chart', { hasText: 'Temperature' }).locator('canvas').waitFor()
    await expect
      .poll(() => page.locator('.chart strong').allInnerTexts())
      .toEqual(['Power', 'Temperature', 'Decoding', 'Link', 'Round trip', 'Load'])
    const power = page.locator('.chart', { hasText: 'Power' })
    await expect.poll(() => power.locator('.legend').innerText()).toMatch(/total\s+[\d.]+\s+VDD_IN/)
    await takePicture(page, 'device')
    await page.goto(`${bridge.httpUrl}/#/device/jetson-01`)
    await page.getByRole('link', { name: id }).waitFor()
    // Text of a device is text, and turns nothing around it.
    await page.goto(`${bridge.httpUrl}/#/device/orin-nano-04`)
    await page.locator('.notice.bad', { hasText: '<img src=x onerror=alert(1)>\\u202e\\u0007' }).waitFor()
    expect(await page.locator('main img').count()).toBe(0)
    await page.goto(`${bridge.httpUrl}/#/device/jetson-01`)
    // With each sample, a second apart.
    await page.locator('.chart', { hasText: 'Load' }).waitFor()
    await page.getByText('no lines').waitFor()
    expect(errors).toEqual([])
  })

  it('holds a conversation with the bridge in the chosen mode, with the figures of each answer', async () => {
    const { page, errors } = await visit(`${bridge.httpUrl}/#/chat`)
    await page.getByLabel('Mode').selectOption('full')
    const first = await ask(page, 'Can you book a table for two?')
    expect(await first.locator('.answer').innerText()).not.toBe('')
    expect(await first.locator('p.figures').innerText()).toMatch(/^full · bridge: brim-demo · \d+ tokens · first after/)
    // The bridge asks a device for its profile when it is there; plans count with it then.
    const profiled = async () => (await call<DeviceDetails>(bridge, '/v1/devices/jetson-02')).smallModels.length
    await expect.poll(profiled).toBe(1)
    await page.getByLabel('Mode').selectOption('sketch')
    const sketched = await ask(page, 'Please tell me how to grow roses in the garden.')
    expect(await traceOf(sketched)).toMatch(/Planned\s+(sketch|full)/)
    await page.goto(`${bridge.httpUrl}/#/answers`)
    await expect
      .poll(() => page.locator('.card .question').allInnerTexts())
      .toEqual(['Please tell me how to grow roses in the garden.', 'Can you book a table for two?'])
    await page.locator('.chart', { hasText: 'KV by tier' }).locator('canvas').waitFor()
    await takePicture(page, 'answers')
    expect(errors).toEqual([])
  })

  it('at an agent shows its own device, and how HAT and DiSCo make answers', async () => {
    const { page, errors } = await visit(agents[0]!.apiUrl)
    await page.getByRole('heading', { name: 'jetson-01' }).waitFor()
    await page.locator('.chart').first().waitFor()
    await expect.poll(() => page.getByRole('navigation').innerText()).toMatch(/Device\s+Chat\s+Answers/)
    await page.getByRole('link', { name: 'Chat' }).click()
    await page.getByLabel('Max tokens').fill('40')
    await page.getByLabel('Mode').selectOption('private')
    const hat = await ask(page, 'Can you book a table for two?')
    expect(await traceOf(hat)).toMatch(/HAT rounds\s+\d+[\s\S]*Accept length[\s\S]*Bytes/)
    await page.getByLabel('Mode').selectOption('fast')
    const raced = await ask(page, 'Where is the station?')
    expect(await traceOf(raced)).toMatch(/First token\s+(device|server)[\s\S]*dollars[\s\S]*slm · brim-demo-slm-deep/)
    await page.getByRole('link', { name: 'Answers' }).click()
    await page.getByText('Where is the station?').waitFor()
    await takePicture(page, 'agent')
    await page.getByRole('link', { name: 'Disclosures' }).click()
    const { disclosures } = await call<DisclosureList>({ httpUrl: agents[0]!.apiUrl }, '/v1/disclosures')
    const rows = page.getByLabel('Ledger').locator('tbody tr')
    await expect.poll(async () => (await rows.allInnerTexts()).length).toBe(disclosures.length)
    const isPrivate = /Z\s+\d+\s+private\s+client\s+states of [\d,]+ tokens, [\d,]+ bytes\s+bridge 127/
    expect((await rows.allInnerTexts()).filter((row) => isPrivate.test(row))).toHaveLength(1)
    expect(await rows.first().innerText()).toMatch(/\sfast\s+client\s/)
    expect(await page.getByRole('main').innerText()).not.toContain('station')
    expect(await axeViolationsOf(page)).toEqual([])
    await takePicture(page, 'disclosures')
    expect(errors).toEqual([])
  })

  it('shows recorded answers again as they happened, without a device, whatever is in the file', async () => {
    const { page, errors } = await visit(`${bridge.httpUrl}/#/answers`)
    const recorded = page.getByLabel('Recorded answers')
    const open = (name: string, lines: readonly object[]) => {
      const buffer = Buffer.from(lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
      return page.getByLabel('Recording', { exact: true }).setInputFiles({ name, mimeType: 'application/jsonl', buffer })
    }
    const question = { event: 'question', question: 'How do roses grow?', mode: 'private', tokensPerS: 5 }
    const hostile = '<img src=x onerror=alert(1)>\u202e'
    const rates = { prefillTokensPerS: 100, upBytesPerS: 1_000, downBytesPerS: null, draftStepMs: 5 }
    const sources = [{ from: 0, tokens: 4, source: 'bridge', model: hostile, device: hostile }]
    const report = {
      ...{
        ttftMs: 3,
        tbtMs: { p50: 1, p95: 2 },
        rounds: 2,
        drafted: 6,
        accepted: 4,
        acceptLength: 3,
        bytesUp: 900,
        bytesDown: 100,
      },
      ...{ reusedTokens: 0, failovers: 0, wire: 'fp16c', sources, rates },
    }
    const usage = { prompt_tokens: 9, completion_tokens: 4, total_tokens: 13 }
    await open('roses.jsonl', [
      question,
      { event: 'sketch', atMs: 5, lines: ['roses sun', hostile] },
      { event: 'text', atMs: 20, text: 'Roses like the sun. ', tokens: 3 },
      { event: 'sketch', atMs: 20, lines: [hostile] },
      { event: 'text', atMs: 3_600_000, text: 'And water.', tokens: 4 },
      { event: 'complete', atMs: 3_600_010, report, usage },
    ])
    // In the hour between two pieces: the line of the sketch that is not covered waits.
    await recorded.getByText('Roses like the sun.').waitFor()
    await expect.poll(() => recorded.locator('.sketch li').allInnerTexts()).toEqual([hostile])
    expect(await recorded.locator('p.figures').innerText()).toBe('answering …')
    await recorded.getByRole('button', { name: 'Show all' }).click()
    await expect.poll(() => recorded.locator('.answer').innerText()).toBe('Roses like the sun. And water.')
    await expect.poll(() => recorded.locator('.trace').innerText()).toMatch(/HAT rounds\s+2[\s\S]*Drafted\s+6, 4 accepted/)
    await expect.poll(() => recorded.locator('p.figures').innerText()).toContain('<img src=x onerror=alert(1)>\\u202e')
    expect(await page.locator('main img').count()).toBe(0)
    expect(await axeViolationsOf(page)).toEqual([])

    // One whose report is of no release, then one that can be shown.
    const broken = {
      ...report,
      rates: null,
      disco: { ...{ mode: 'x', migrations: [], cost: {}, tokensPerS: 0 }, stalls: 0, stalledMs: 0 },
    }
    await open('broken.jsonl', [
      question,
      { event: 'complete', atMs: 1, report: broken },
      question,
      { event: 'failed', atMs: 1, message: hostile },
    ])
    await recorded.getByText('Roses like the sun.').waitFor({ state: 'detached' })
    await recorded.getByText('this answer cannot be shown').waitFor()
    await recorded.locator('.notice.bad', { hasText: 'onerror' }).waitFor()
    await open('no-recording.jsonl', [{ event: 'x' }])
    await recorded.getByText('line 1 is not one of a recorded answer').waitFor()

    // What “brim ask --record” writes.
    const file = join(dir.path, 'answer.jsonl')
    const { io } = captureIo({ env: { HOME: dir.path } })
    await brim(
      ['ask', 'Where is the station?', '--api', agents[0]!.apiUrl, '--mode', 'private', '--max-tokens', '40', '--record', file],
      io,
    )
    const text = JSON.stringify(readFileSync(file, 'utf8'))
    const dropped = await page.evaluateHandle(
      `(() => { const data = new DataTransfer(); data.items.add(new File([${text}], 'answer.jsonl')); return data })()`,
    )
    await recorded.dispatchEvent('drop', { dataTransfer: dropped })
    await recorded.locator('p.figures', { hasText: 'in all' }).first().waitFor()
    expect(await recorded.locator('.trace').innerText()).toMatch(/HAT rounds\s+\d+/)
    await takePicture(page, 'replay')
    expect(errors).toEqual([])
  })

  it('has no violation that axe finds, in any view, light and dark, on a desk and on a phone, and works with keys alone', async () => {
    const { page, errors } = await visit(bridge.httpUrl)
    await page.locator('.table-rows .id').first().waitFor()
    await page.keyboard.press('Tab')
    await expect.poll(() => page.evaluate<string>('document.activeElement.textContent')).toContain('Skip to the content')
    await page.keyboard.press('Enter')
    await expect.poll(() => page.evaluate('document.activeElement.id')).toBe('main')
    const found: string[] = []
    const views = ['fleet', 'device/orin-nano-03', 'chat', 'answers', 'jobs', 'rollouts']
    const check = async (how: string) => {
      for (const view of views) {
        await page.evaluate(`location.hash = '#/${view}'`)
        await page.locator('main h1').first().waitFor({ state: 'attached' })
        found.push(...(await axeViolationsOf(page)).map((violation) => `${view}, ${how}: ${violation}`))
        const tooWide = await page.evaluate<boolean>('document.documentElement.scrollWidth > innerWidth')
        if (tooWide) found.push(`${view}, ${how}: wider than the screen`)
        if (how === 'phone' && view === 'fleet') await takePicture(page, 'phone')
      }
    }
    await check('light')
    await page.emulateMedia({ colorScheme: 'dark' })
    await page.setViewportSize({ width: 390, height: 780 })
    await check('phone')
    expect(found).toEqual([])
    expect(errors).toEqual([])
  })

  it('shows every event of a job once, and the whole fleet, after the bridge was restarted', async () => {
    // No device takes it: it waits for one that has never connected.
    const { id } = await call<{ id: string }>(bridge, '/v1/jobs', {
      kind: 'slm.generate',
      input: { prompt: 'Is it far?', maxTokens: 4 },
      device: 'agx-orin-05',
    })
    const { page: job, errors } = await visit(`${bridge.httpUrl}/#/job/${id}`)
    await job.getByRole('button', { name: 'Cancel' }).waitFor()
    const { page: list } = await visit(bridge.httpUrl)
    await list.locator('.table-rows .id').first().waitFor()
    const ports = { httpPort: portOf(bridge.httpUrl), mqttPort: portOf(bridge.mqttUrl) }
    await bridge.close()
    await list.getByText('Not up to date').waitFor()
    bridge = await startOpenBridge(ports)
    await call(bridge, '/v1/devices/agx-orin-05/labels', { set: { site: 'attic' } })
    await call(bridge, `/v1/jobs/${id}/cancel`, {})
    await job.getByText('canceled', { exact: true }).first().waitFor()
    const { events } = await call<{ events: unknown[] }>(bridge, `/v1/jobs/${id}/events`)
    await expect.poll(() => job.locator('.log li').count()).toBe(events.length)
    await list.getByText('Not up to date').waitFor({ state: 'detached' })
    await list.getByLabel('Filter').fill('site=attic')
    await expect.poll(() => shownIds(list)).toEqual(['agx-orin-05'])
    await list.getByLabel('Filter').fill('jetson ready')
    await expect.poll(() => shownIds(list)).toEqual(['jetson-01', 'jetson-02'])
    await job.getByRole('button', { name: 'Submit again' }).click()
    await expect.poll(() => job.url()).not.toContain(id)
    expect((await call<JobDetails>(bridge, `/v1/jobs/${job.url().split('/').at(-1)}`)).retryOf).toBe(id)
    expect(errors).toEqual([])
  })
})

describe.skipIf(skips)('the page of a bridge that requires keys', { timeout: 60_000 }, () => {
  it('shows each role what it may see, and writes what an operator does to the audit log', async () => {
    const stateDir = join(dir.path, 'guarded')
    const guarded = await startTestBridge({ stateDir, auth: true, upstream: { url: 'http://127.0.0.1:9/v1', model: 'none' } })
    const store = openIdentityStore(stateDir)
    const keyOf = (role: 'client' | 'viewer' | 'operator' | 'admin') => store.createKey('operator:test', `a-${role}`, role).key
    await enrolDevice({ dir: dir.path, bridge: guarded }, store, 'orin-01')
    const { rollout } = await call<{ rollout: Rollout }>(
      guarded,
      '/v1/rollouts',
      { kind: 'config.apply', input: { settings: { 'reading-speed': 6 } }, selector: { devices: ['orin-01'] } },
      keyOf('operator'),
    )
    const { page, errors } = await visit(guarded.httpUrl)
    const logIn = async (key: string) => {
      await page.getByLabel('API key').fill(key)
      await page.getByRole('button', { name: 'Log in', exact: true }).click()
    }
    const views = () => page.getByRole('navigation').innerText()
    expect(await axeViolationsOf(page)).toEqual([])
    await logIn('not-a-key')
    await page.getByText('does not accept this key').waitFor()
    expect(errors.filter((text) => !text.includes('401'))).toEqual([])

    await logIn(keyOf('client'))
    await page.getByLabel('Question').waitFor()
    await expect.poll(views).toMatch(/^Chat\s+Answers$/)
    await page.getByRole('button', { name: 'Log out' }).click()

    await logIn(keyOf('viewer'))
    await page.getByRole('link', { name: 'orin-01' }).waitFor()
    await expect.poll(views).toMatch(/^Fleet\s+Answers\s+Rollouts$/)
    await page.getByRole('link', { name: 'Rollouts' }).click()
    await page.getByText('1 waiting of 1').or(page.getByText('1 started of 1')).waitFor()
    expect(await page.getByRole('main').getByRole('button').count()).toBe(0)
    await page.getByRole('button', { name: 'Log out' }).click()

    await logIn(keyOf('operator'))
    await page.getByRole('button', { name: 'Pause' }).click()
    await page
      .getByText('audited as rollout.pause')
      .or(page.getByRole('button', { name: 'Resume' }))
      .first()
      .waitFor()
    await page.getByRole('button', { name: 'Resume' }).click()
    await page.getByRole('button', { name: 'Pause' }).waitFor()
    await page.getByRole('button', { name: 'Abort' }).click()
    await page.getByRole('button', { name: 'Abort, and cancel its jobs' }).click()
    await page.getByText('aborted').first().waitFor()
    await page.reload()
    await page.getByText('aborted').first().waitFor()
    const { audit } = await call<{ audit: AuditLine[] }>(guarded, '/v1/admin/audit', undefined, keyOf('admin'))
    const lines = audit
      .filter(({ subject }) => subject === rollout.id)
      .map(({ action, actor }) => `${action} ${actor.split('/')[0]}`)
    expect(lines.slice(0, 3)).toEqual(['abort', 'resume', 'pause'].map((verb) => `rollout.${verb} key:a-operator`))

    // Figures of everyone's answers are for operators.
    await page.getByRole('link', { name: 'Answers' }).click()
    await page.getByRole('heading', { name: 'Served now' }).waitFor()
    for (const role of ['viewer', 'client'] as const)
      await expect(call(guarded, '/v1/served', undefined, keyOf(role))).rejects.toThrow('this needs operator or above')
    await page.getByRole('button', { name: 'Log out' }).click()
    await logIn(keyOf('viewer'))
    await page.getByRole('link', { name: 'Answers' }).click()
    await page.getByRole('heading', { name: 'The bridge' }).waitFor()
    expect(await page.getByRole('heading', { name: 'Served now' }).count()).toBe(0)
    store.close()
    await guarded.close()
  })

  it('logs a user of the command line in by a URL, once and only where the user agrees', async () => {
    const stateDir = join(dir.path, 'offering')
    await using guarded = await startTestBridge({
      stateDir,
      auth: true,
      upstream: { url: 'http://127.0.0.1:9/v1', model: 'none' },
    })
    const store = openIdentityStore(stateDir)
    /** The URL that a user gets who is logged in on the command line. */
    const urlOf = async (role: 'viewer' | 'operator') => {
      const home = { HOME: join(dir.path, `home of ${role}`) }
      const { key } = store.createKey('operator:test', `a-${role}`, role)
      await brim(['login', '--bridge-url', guarded.httpUrl], captureIo({ env: home, stdin: key }).io)
      const { io, out } = captureIo({ env: home })
      await brim(['login', '--browser', '--json'], io)
      return (JSON.parse(out()) as { url: string }).url
    }
    const url = await urlOf('viewer')
    const { page, errors } = await visit(url)
    const token = () => page.evaluate<string | null>('sessionStorage.getItem("brim-key")')
    const navigation = page.getByRole('navigation')
    await page.getByRole('heading', { name: 'Log in as a-viewer (viewer)?' }).waitFor()
    expect([page.url(), await token()]).toEqual([`${guarded.httpUrl}/#/`, null])
    expect(await axeViolationsOf(page)).toEqual([])
    await page.getByRole('button', { name: 'Do not log in' }).click()
    await page.getByLabel('API key').waitFor()
    await page.goto(url)
    await page.getByText('the code of this URL was used').waitFor()
    expect(await token()).toBeNull()

    await page.goto(await urlOf('viewer'))
    await page.getByRole('button', { name: 'Log in', exact: true }).click()
    await expect.poll(() => navigation.innerText()).toMatch(/^Fleet\s+Answers\s+Rollouts$/)
    const own = await token()
    await expect(call(guarded, '/v1/browser-logins', {}, own!)).rejects.toThrow('not by another browser')

    // Someone else's URL changes nothing by itself, neither when it is good nor when it is not.
    await page.goto(await urlOf('operator'))
    await page.getByRole('heading', { name: 'Log in as a-operator (operator)?' }).waitFor()
    expect(await token()).toBe(own)
    await page.getByRole('button', { name: 'Stay a-viewer' }).click()
    await navigation.waitFor()
    await page.goto(url)
    await page.getByText('the code of this URL was used').waitFor()
    expect([await navigation.innerText(), await token()]).toEqual([expect.not.stringContaining('Jobs'), own])

    await page.goto(await urlOf('operator'))
    await page.getByRole('button', { name: 'Log in', exact: true }).click()
    await expect.poll(() => navigation.innerText()).toContain('Jobs')
    // Refusals of the same kind are one line.
    const logins = (how: string) => () =>
      store.audit(40).flatMap(({ action, outcome }) => (action.startsWith('login.') && outcome === how ? [action] : []))
    await expect.poll(logins('ok')).toEqual(Array.from({ length: 4 }, () => ['login.exchange', 'login.create']).flat())
    await expect.poll(logins('refused')).toContain('login.exchange')
    expect(errors.filter((text) => !text.includes('404'))).toEqual([])
    store.close()
  })
})
