import { expect, it } from 'vitest'
import { measurePage, pageBench } from '../../../lab/bench/page/bench.ts'
import { chromiumProgram } from '../../../lab/bench/page/browser.ts'
import { buildTextBundle } from '../../support/agent-world.ts'
import { expectFigures } from '../../support/bench-result.ts'
import { captureIo } from '../../support/captured-io.ts'
import { isMissing } from '../../support/prerequisites.ts'
import { tempDir } from '../../support/temp-dir.ts'

const skips = isMissing('Chromium (Debian: apt-get install chromium)', chromiumProgram() !== undefined)

it.skipIf(skips)('opens the page, and follows a fleet over a lost network and a killed bridge', { timeout: 60_000 }, async () => {
  using dir = tempDir()
  const { io } = captureIo({ env: process.env as Record<string, string> })
  const plan = { bundle: await buildTextBundle(dir.path), devices: 30, views: 1, followS: 1, sampleEveryS: 1 }
  const result = pageBench.resultOf(await measurePage(plan, { io, quick: true, progress() {} }))
  expectFigures(pageBench, result)
  expect(result.runs).toMatchObject([{ devices: 30, eventsLost: 0, axeViolations: [], consoleErrors: [] }])
})
