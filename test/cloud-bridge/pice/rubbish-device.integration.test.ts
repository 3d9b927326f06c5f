import { expect, it } from 'vitest'
import { run } from '../../../brim.ts'
import { ensureDemoBundle } from '../../../lab/cluster/demo-bundles.ts'
import { captureIo } from '../../support/captured-io.ts'
import { startSketchingBridge } from '../../support/sketching-bridge.ts'

it('a device whose small model writes rubbish is named by the doctor and in the fleet, a good one is not', async () => {
  await using world = await startSketchingBridge()
  const doctor = async (...words: string[]) => {
    const { io, out } = captureIo()
    expect(await run(['fleet', 'doctor', '--bridge-url', world.bridge.httpUrl, ...words], io)).toBe(0)
    return out()
  }
  let served = 0
  await world.device('bad', (given) => {
    served += 1
    return given.succeed(() => 'Nothing at all.', -9)
  })
  expect(await doctor()).not.toMatch(/small-model/)
  for (let asked = 0; asked < 12 && served < 6; asked += 1) {
    const { text, pice } = await world.ask()
    expect(text).not.toContain('Nothing at all')
    expect(pice.expandedSentences ?? 0).toBe(0)
    if (/small-model/.test(await doctor())) break
  }
  const before = served
  expect(await doctor()).toMatch(/^[ !] +bad +small-model +slm writes no expansions/m)
  const { devices } = JSON.parse(await doctor('--json')) as {
    devices: { id: string; reasons: { kind: string; fix: string }[] }[]
  }
  const reasons = devices.find(({ id }) => id === 'bad')!.reasons.filter(({ kind }) => kind === 'small-model')
  expect(reasons).toMatchObject([{ fix: expect.stringMatching(/\S/) }])
  // It rests: a good device gets the next sketch alone.
  await world.device('good', (given) => given.succeed())
  const { sources } = await world.ask()
  expect(new Set(sources.flatMap(({ device }) => device ?? []))).toEqual(new Set(['good']))
  expect(served).toBe(before)
  expect(await doctor('--device', 'good')).not.toMatch(/small-model/)
})

it('a device that is sure of sentences beside the question, with the words of their lines, is unmasked by the LLM', async () => {
  await using world = await startSketchingBridge(undefined, { bundle: await ensureDemoBundle(), upstream: undefined })
  await world.device('liar', (given) => given.succeed((line) => `Nothing at all ${line} nothing at all nothing at all.`, 0))
  const messages = [{ role: 'user', content: 'Please tell me how to clean a piano with my neighbor in summer.' }]
  const isNamed = async () =>
    (await (await fetch(`${world.bridge.httpUrl}/v1/devices/liar`)).text()).includes('slm writes no expansions')
  const answers: Awaited<ReturnType<typeof world.ask>>[] = []
  while (answers.length < 20 && !(await isNamed())) answers.push(await world.ask({ messages, max_tokens: 400 }))
  // Its own word would have carried it on: Eq. 3 alone calls these sentences good.
  expect(answers[0]!.pice.confidence).toBeGreaterThan(0.6)
  expect(answers.length).toBeLessThan(20)
  expect(await world.ask({ messages })).toMatchObject({ pice: { mode: 'full', reason: 'no-device' } })
})
