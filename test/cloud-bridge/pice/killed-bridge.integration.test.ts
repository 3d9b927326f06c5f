import { expect, it } from 'vitest'
import { streamAnswerFrom } from '../../../core/wire/openai/client.ts'
import { freePort } from '../../../lab/cluster/free-port.ts'
import { startBrim } from '../../../lab/cluster/processes.ts'
import { connectExpandingDevice, type DeviceRun } from '../../support/expanding-device.ts'
import { body, isProfiled, lines, openUpstream, picePrompts, textOf, whole } from '../../support/sketch-world.ts'
import { tempDir } from '../../support/temp-dir.ts'

/** Devices that take so long for a token are given a minute. */
const slowTpotMs = 5_000

it('a bridge that is killed with 100 sketches out answers them all after its restart', async () => {
  using dir = tempDir()
  await using upstream = await openUpstream()
  const [http, mqtt] = [await freePort(), await freePort()]
  const limits = { waitingExpansionsPerDevice: 200, expansionsPerJob: 64, expansionJobsPerDevice: 2 }
  const start = () =>
    startBrim(
      [
        ...['bridge', 'run', '--upstream', upstream.url, '--upstream-model', 'llm', '--state-dir', dir.path],
        ...['--pice-prompts', picePrompts(dir.path)],
        ...['--http-port', String(http), '--mqtt-port', String(mqtt), '--threads', '1'],
        ...Object.entries(limits).flatMap(([name, value]) => ['--limit', `${name}=${value}`]),
      ],
      { env: process.env },
    )
  const url = `http://127.0.0.1:${http}`
  const first = await start()
  const held: DeviceRun[] = []
  await using _device = await connectExpandingDevice(
    `mqtt://127.0.0.1:${mqtt}`,
    'jetson-01',
    (run) => {
      held.push(run)
      return run.report({ type: 'accepted' }, { type: 'running' })
    },
    slowTpotMs,
  )
  await isProfiled(url, 'jetson-01')
  let sketched = 0
  const answers = Array.from({ length: 100 }, () =>
    streamAnswerFrom({ server: 'bridge', url }, body, new AbortController().signal, {
      onSketch: (left) => (sketched += left.length === lines.length ? 1 : 0),
    }),
  )
  await expect.poll(() => sketched).toBe(100)
  await expect.poll(() => held.length).toBeGreaterThan(0)
  await first.kill()
  const second = await start()
  try {
    const ended = Promise.allSettled(answers)
    // The device goes on with what it has, and with what it gets now.
    const serve = setInterval(() => {
      for (const run of held.splice(0)) void run.succeed().catch(() => {})
    }, 100)
    const results = await ended
    clearInterval(serve)
    const texts = results.map((result) => (result.status === 'fulfilled' ? result.value.text : String(result.reason)))
    const byDevice = texts.filter((text) => text === textOf(['jetson-01', 'jetson-01', 'jetson-01']))
    // The model answers those whose device was not back in time.
    expect(texts.filter((text) => !byDevice.includes(text) && text !== whole)).toEqual([])
    expect(byDevice.length).toBeGreaterThan(50)
  } finally {
    await second.stop()
  }
}, 120_000)
