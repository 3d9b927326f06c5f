import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Agent, startAgent } from '../../../agent/agent.ts'
import type { Expanded } from '../../../cloud-bridge/pice/expander.ts'
import { SketchInput } from '../../../core/wire/protocol/jobs.ts'
import { ensureDemoBundle } from '../../../lab/cluster/demo-bundles.ts'
import { startExpandingBridge } from '../../support/expanding-bridge.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const dir = shared(tempDir)
const bridge = shared(() => startExpandingBridge(dir.path))
let agents: Agent[]
beforeAll(async () => {
  const slm = await ensureDemoBundle('slm-wide')
  agents = await Promise.all(
    ['jetson-01', 'jetson-02'].map((id) =>
      startAgent({
        id,
        slms: [slm],
        bridges: [bridge.mqttUrl],
        stateDir: join(dir.path, id),
        apiPort: 0,
        threads: 1,
        logLevel: 'silent',
      }),
    ),
  )
})
afterAll(() => Promise.all(agents.map((agent) => agent.close())))

const sketch = ['small village sea', 'keeper lamp night', 'storm boat rocks', 'boy rope rescue', 'morning calm thanks']
async function expand(id: string, fields: Partial<SketchInput> = {}): Promise<Expanded[]> {
  const messages = [{ role: 'user' as const, content: 'Tell me about a lighthouse.' }]
  const input = SketchInput.parse({ messages, sketch, expectedTokens: 100, ...fields })
  const expanded: Expanded[] = []
  for await (const sentence of bridge.expander.expand({ id, client: '', input, deadlineMs: 60_000 }, AbortSignal.timeout(60_000)))
    expanded.push(sentence)
  return expanded
}

describe('sketches on real devices', () => {
  it('have their speed measured, are expanded side by side, and correct it', async () => {
    await expect.poll(() => bridge.expander.view().devices, { timeout: 40_000 }).toHaveLength(2)
    const [first] = bridge.expander.view().devices
    expect(first?.models[0]).toMatchObject({ ttftS: expect.any(Number), tpotS: expect.any(Number) })
    const answers = await Promise.all(['x', 'y', 'z'].map((id) => expand(id)))
    for (const expanded of answers) {
      expect(expanded.map(({ sentence }) => sentence).sort()).toEqual([0, 1, 2, 3, 4])
      for (const { text, meanLog2Probability } of expanded) {
        expect(text).not.toBe('')
        expect(meanLog2Probability).toBeLessThan(0)
      }
    }
    expect(new Set(answers.flat().map(({ device }) => device))).toEqual(new Set(['jetson-01', 'jetson-02']))
    // A job that a second device has overtaken is cancelled, and measures nothing: on a slow machine it takes more than three.
    const runs = () => bridge.profiles.describe('jetson-01')[0]?.runs ?? 0
    for (let at = 0; at < 10 && runs() === 0; at++) await Promise.all([expand(`more-${at}`), expand(`others-${at}`)])
    expect(runs()).toBeGreaterThan(0)
  })

  it('are expanded by the other device when one is stopped', async () => {
    const long = Array.from({ length: 20 }, (_, at) => `${sketch[at % sketch.length]} ${at}`)
    const running = ['v', 'w'].map((id) => expand(id, { sketch: long, expectedTokens: 600 }))
    await expect.poll(() => bridge.jobs.store.list({ kind: 'pice.expand', state: 'RUNNING', limit: 10 })).toHaveLength(2)
    await agents.shift()!.close()
    for (const expanded of await Promise.all(running)) expect(expanded).toHaveLength(20)
  })
})
