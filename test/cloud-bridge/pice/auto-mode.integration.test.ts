import { existsSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { portOf, startRelay, through } from '../../../lab/cluster/relay.ts'
import { startBroker } from '../../support/broker.ts'
import { connectExpandingDevice } from '../../support/expanding-device.ts'
import { answerOf, fullAnswer, lines } from '../../support/instructed-upstream.ts'
import { finish, piece, startStream } from '../../support/scripted-upstream.ts'
import { type Asked, startSketchingBridge } from '../../support/sketching-bridge.ts'
import { tempDir } from '../../support/temp-dir.ts'

/** Slow enough for a sketch to be worth it, whatever else the machine does. */
const tokenMs = 20
const slowly =
  (text: string) =>
  async (response: ServerResponse): Promise<void> => {
    startStream(response)
    for (const token of text.split(/(?<=\s)/)) {
      await sleep(tokenMs)
      response.write(piece(token))
    }
    response.end(finish)
  }
const slowModel = ({ kind }: Asked) =>
  kind === 'sketch' ? slowly(lines.join('\n')) : kind === 'full' ? slowly(fullAnswer) : undefined

/** Checks of the connection to the broker, which come every 5 s, with the clock below. */
const checkMs = 1_000
/** Waits of the bridge are a fifth as long, so that it soon checks its connection to the broker. */
const impatient = { ...systemClock, sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms / 5, signal) }

/** What operators see of the device. */
const shown = async (httpUrl: string) => (await fetch(`${httpUrl}/v1/devices/jetson-01`)).text()
const isProfiled = (httpUrl: string) => expect.poll(() => shown(httpUrl)).toContain('"slm"')

it('a bridge in the mode auto measures its devices and its model, then sketches by its objectives while devices are there, and learns', async () => {
  using dir = tempDir()
  const stateDir = join(dir.path, 'bridge')
  await using broker = await startBroker()
  await using relay = await startRelay(portOf(broker.url))
  const url = through(relay, broker.url)
  // The usual objectives choose the shortest sketch, these the longest of those that are in time.
  const settings = { stateDir, broker: { url }, answerMode: 'auto', sketchObjectives: 'throughput=1.5,error' } as const
  await using world = await startSketchingBridge(slowModel, settings, impatient)
  await using _device = await connectExpandingDevice(world.bridge.mqttUrl, 'jetson-01', (run) => run.succeed())
  await isProfiled(world.bridge.httpUrl)
  const ask = () => world.ask({ brim: {} })
  const sketched = { text: answerOf(lines.map(() => 'jetson-01')), pice: { mode: 'sketch', reason: null, level: 1 } }

  expect(await ask()).toMatchObject({ text: fullAnswer, pice: { mode: 'full', reason: 'unmeasured' } })
  expect(await ask()).toMatchObject(sketched)

  // The bridge loses the broker, and with it the devices.
  relay.target = 1
  relay.cut()
  await sleep(3 * checkMs)
  expect(await ask()).toMatchObject({ text: fullAnswer, pice: { mode: 'full', reason: 'no-device' } })

  await world.bridge.close()
  expect(existsSync(join(stateDir, 'suitability.json'))).toBe(true)
})

it('a device that has stored its bytes for today counts as absent', async () => {
  await using world = await startSketchingBridge(undefined, { limits: { deviceJobBytesPerDay: 1_024 } })
  const { httpUrl, mqttUrl } = world.bridge
  await using _device = await connectExpandingDevice(mqttUrl, 'jetson-01', ({ input, report }) => {
    const by = { sketch: 0, candidate: 0, model: 'slm', tokens: 40, meanLog2Probability: -1 }
    const sentences = input.sketches[0]!.sketch.map((line, sentence) => ({
      ...by,
      sentence,
      text: `${line}, slowly `.repeat(20),
    }))
    return report({ type: 'running' }, { type: 'succeeded', result: { sentences, runs: [] } })
  })
  // Where answers are usually full, the first question that may be sketched has the fleet measured.
  await expect.poll(() => shown(httpUrl)).toContain('"ready"')
  expect(await shown(httpUrl)).not.toContain('"slm"')
  expect(await world.ask({}, 'auto')).toMatchObject({ text: fullAnswer, pice: { reason: 'unmeasured' } })
  await isProfiled(httpUrl)
  expect(await world.ask()).toMatchObject({ pice: { mode: 'sketch', reason: null, expandedSentences: 3 } })
  expect(await world.ask()).toMatchObject({ text: fullAnswer, pice: { mode: 'full', reason: 'no-device' } })
})
