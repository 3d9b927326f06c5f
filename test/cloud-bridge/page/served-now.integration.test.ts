import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { startAgent } from '../../../agent/agent.ts'
import { type OpenModel, openServedModel } from '../../../cloud-bridge/serving/open-served-model.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { axeViolationsOf, chromiumProgram, consoleErrorsOf, launchBrowser } from '../../../lab/bench/page/browser.ts'
import { ensureDemoBundle } from '../../../lab/cluster/demo-bundles.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { isMissing } from '../../support/prerequisites.ts'
import { fresh } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const skips = isMissing('Chromium (Debian: apt-get install chromium)', chromiumProgram() !== undefined)

/** Time of a step at least, as of a larger model: an answer takes a while. */
const stepMs = 8
/** As of page.integration.test.ts. */
const { BRIM_SCREENSHOTS: pictures } = process.env
const question = 'Please tell me about my secret garden.'
const dir = fresh(tempDir)

const paced: OpenModel = async (options) => {
  const opened = await openServedModel(options)
  const { served } = opened
  return {
    ...opened,
    served: {
      ...served,
      async step(items) {
        await systemClock.sleep(stepMs)
        return served.step(items)
      },
    },
  }
}

/** A long answer, whose text comes as it is read. @param tokensPerS that its reader takes */
async function ask(
  url: string,
  mode: 'full' | 'private',
  maxTokens: number,
  tokensPerS: number,
  leave: AbortSignal,
): Promise<Response> {
  const messages = [{ role: 'user', content: question }]
  const brim = { mode, tokens_per_s: tokensPerS }
  const body = JSON.stringify({ messages, max_tokens: maxTokens, ignore_eos: true, stream: true, brim })
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body, signal: leave }
  const response = await fetch(`${url}/v1/chat/completions`, init)
  expect(response.status).toBe(200)
  return response
}

type Row = Readonly<Record<string, string>>

/** Cells of a table, row by row, by their column; none where the page has no such table. */
const rowsOf = (page: Page, label: string) =>
  page.evaluate<Row[]>(`(() => {
    const texts = (cells) => [...cells].map((cell) => cell.innerText.trim())
    const section = document.querySelector('section[aria-label="${label}"]')
    const head = texts(section?.querySelectorAll('th') ?? [])
    const rows = [...(section?.querySelectorAll('tbody tr') ?? [])]
    return rows.map((row) => Object.fromEntries(texts(row.cells).map((text, at) => [head[at], text])))
  })()`)

describe.skipIf(skips)('an operator at the page', { timeout: 60_000 }, () => {
  it('sees the HAT sessions and answers of everyone while they are made: rounds, buffers, preemption, KV by tier', async () => {
    const bundle = await ensureDemoBundle()
    // Memory for little more than one of the answers.
    const settings = {
      bundle,
      stateDir: join(dir.path, 'bridge'),
      kvBudgetBytes: 5 * 2 ** 20,
      servingPolicy: 'tokenflow' as const,
    }
    await using bridge = await startTestBridge({ ...settings, limits: { deviceKvPercent: 50 } }, undefined, { openModel: paced })
    const agent = await startAgent({
      id: 'jetson-01',
      stateDir: join(dir.path, 'jetson-01'),
      bundle,
      bridges: [bridge.mqttUrl],
      apiPort: 0,
      threads: 1,
      logLevel: 'silent',
    })
    await using browser = await launchBrowser()
    const page = await browser.newPage({ viewport: { width: 1200, height: 720 } })
    const errors = consoleErrorsOf(page)
    await page.goto(`${bridge.httpUrl}/#/answers`)
    await page.getByText('no HAT session is open').waitFor()
    await page.getByText('no answer waits or is generated').waitFor()

    const leaving = new AbortController()
    const asked = [
      ...Array.from({ length: 4 }, () => ask(bridge.httpUrl, 'full', 700, 1, leaving.signal)),
      ask(agent.apiUrl, 'private', 700, 0, leaving.signal),
    ]
    const answers: Row[] = []
    /** Whether there was such an answer in the table by now. */
    const hasShown = (how: (row: Row) => boolean) => async () => {
      answers.push(...(await rowsOf(page, 'Answers that wait or are generated')))
      return answers.some(how)
    }
    await expect.poll(hasShown(({ State, Unread }) => State === 'running' && Number(Unread) > 10)).toBe(true)
    await expect
      .poll(hasShown((row) => row.State === 'preempted' && row['Fast KV'] === '0 B' && row['Slow KV'] !== '0 B'))
      .toBe(true)
    await expect.poll(hasShown(({ State, Preempted }) => State === 'running' && / resumed [1-9]/.test(Preempted!))).toBe(true)
    expect(new Set(answers.map(({ Reader }) => Reader))).toEqual(new Set(['1/s']))
    let session: Row | undefined
    const rounds = async () => {
      session = (await rowsOf(page, 'HAT sessions'))[0]
      return Number(session?.Rounds)
    }
    await expect.poll(rounds).toBeGreaterThan(5)
    expect(session).toMatchObject({
      'HAT session of': 'jetson-01',
      State: expect.stringMatching(/^(running|idle|preempted)$/),
      Accepted: expect.stringMatching(/^\d+ of \d+$/),
      Bytes: expect.stringMatching(/^↑ \d.* ↓ \d/),
      // Of the link's first heartbeat.
      'Round trip': expect.stringMatching(/^(–|[\d.]+ m?s)$/),
    })
    expect(await page.getByRole('main').innerText()).not.toContain('garden')
    expect(await (await fetch(`${bridge.httpUrl}/v1/served`)).text()).not.toContain('garden')
    expect(await axeViolationsOf(page)).toEqual([])
    if (pictures !== undefined) await page.screenshot({ path: join(pictures, 'served.png') })
    await page.setViewportSize({ width: 390, height: 780 })
    expect(await page.evaluate('document.documentElement.scrollWidth > innerWidth')).toBe(false)

    leaving.abort()
    await Promise.allSettled(asked)
    await agent.close()
    await page.getByText('no HAT session is open').waitFor()
    await page.getByText('no answer waits or is generated').waitFor()
    expect(errors).toEqual([])
  })
})
