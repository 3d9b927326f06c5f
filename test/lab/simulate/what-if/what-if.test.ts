import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { run } from '../../../../brim.ts'
import { runScenario } from '../../../../lab/simulate/run/run-scenario.ts'
import {
  type Candidate,
  firstCandidates,
  refinedCandidates,
  type Situation,
  scenarioOf,
} from '../../../../lab/simulate/what-if/candidates.ts'
import { bestOf, type Tried } from '../../../../lab/simulate/what-if/choice.ts'
import { configFiles } from '../../../../lab/simulate/what-if/config-files.ts'
import { captureIo } from '../../../support/captured-io.ts'

const folder = mkdtempSync(join(tmpdir(), 'brim-what-if-'))
const rows = Array.from({ length: 6 }, (_, i) => `${2 * i},${40 + 10 * i},${8 + i}`)
writeFileSync(join(folder, 'trace.csv'), ['arrival,prompt tokens,output tokens', ...rows].join('\n'))

const situation: Situation = {
  trace: 'trace.csv',
  requests: 6,
  model: 'llama3-8b',
  gpu: 'a100-80',
  gpus: 1,
  replicas: 1,
  board: 'agx-orin-32',
  smallModel: 'qwen2.5-1.5b',
  devices: 4,
  link: { up: 5e6, down: 12e6, rttMs: 20 },
  reading: 5,
  price: { prompt: 1.5e-7, output: 6e-7 },
  battery: undefined,
}

const result = await runScenario(scenarioOf(situation, firstCandidates()[5]!), { folders: [folder] })
/** A result with other figures. */
function tried(candidate: Candidate, ttftMs: number, dollars: number, answered = 6): Tried {
  const { all } = result
  const changed = {
    ...all,
    answered,
    ttftMs: { ...all.ttftMs, p95: ttftMs },
    work: { ...all.work, dollars, serverPromptTokens: 0, serverOutputTokens: 100 * dollars },
  }
  return { candidate, result: { ...result, all: changed } }
}

const [cloud, hat, local] = firstCandidates() as [Candidate, Candidate, Candidate]

describe('the choice among candidates', () => {
  it('is the cheapest of those that are as good as the best by the goal', () => {
    const all = [tried(cloud, 100, 2), tried(hat, 109, 1), tried(local, 120, 0.5)]
    expect(bestOf(all, 'ttft')?.candidate).toBe(hat)
    expect(bestOf(all, 'cost')?.candidate).toBe(local)
  })

  it('is none that loses requests', () => {
    expect(bestOf([tried(cloud, 100, 2, 5), tried(hat, 900, 1)], 'ttft')?.candidate).toBe(hat)
    expect(bestOf([tried(cloud, 100, 2, 5)], 'ttft')).toBeUndefined()
  })
})

describe('the candidates', () => {
  it('have scenarios that run', async () => {
    expect([result.all.answered, result.isComplete]).toEqual([6, true])
    for (const candidate of firstCandidates())
      expect(scenarioOf(situation, candidate).workload.modes[0]!.mode).toBe(candidate.mode)
  })

  it('name hardware that there is not, and the nearest that there is', () => {
    expect(() => scenarioOf({ ...situation, gpu: 'a100-81' }, cloud)).toThrow(/^cloud\.gpu .*"a100-80"/)
  })

  it('of HAT differ in chunks and drafts, those of the cloud in policy and prompts', () => {
    expect(new Set(refinedCandidates(hat).map(({ bridge }) => bridge['frame-tokens']))).toEqual(new Set([128, 512]))
    expect(new Set(refinedCandidates(hat).map(({ agent }) => agent['draft-ahead']))).toEqual(new Set([true, false]))
    expect(new Set(refinedCandidates(cloud).map(({ bridge }) => bridge['serving-policy']))).toEqual(
      new Set(['tokenflow', 'decode-first']),
    )
    expect(refinedCandidates(local)).toEqual([])
  })
})

describe('configuration files', () => {
  async function check(program: 'agent' | 'bridge', text: string, ...more: string[]) {
    const file = join(folder, `${program}.yaml`)
    writeFileSync(file, text)
    const { io, err } = captureIo({ env: { HOME: folder } })
    return { code: await run([program, 'config', 'check', '--config', file, '--bundle', folder, ...more], io), err: err() }
  }

  it('are accepted by agent and bridge', async () => {
    const all = [...firstCandidates(), refinedCandidates(hat)[0]!, refinedCandidates(cloud)[0]!]
    for (const candidate of all) {
      const files = configFiles(situation, 'ttft', tried(candidate, 100, 1), [])
      expect(await check('agent', files.agent, '--id', 'd', '--slm', folder), files.agent).toEqual({ code: 0, err: '' })
      expect(await check('bridge', files.bridge), files.bridge).toEqual({ code: 0, err: '' })
    }
  })

  it('have the reasons as comments, prices, and budgets for twice the trace’s day', () => {
    const best = tried(firstCandidates()[5]!, 100, 1)
    const { agent } = configFiles(situation, 'ttft', best, [best, tried(cloud, 200, 2)])
    expect(agent).toMatch(/^# By brim simulate what-if trace\.csv: auto, budget-share 0\.2 is best for ttft, of 2 ways/)
    expect(agent).toContain('# cloud: TTFT P95 200 ms')
    expect(agent).toContain('\nmode: auto\nbudget-share: 0.2\nserver: bridge\nreading-speed: 5\nserver-price: 0.15/0.6\n')
    const dollars = Number(/budget-dollars: (.*)/.exec(agent)![1])
    expect(dollars).toBeCloseTo((2 * 86_400) / result.durationS / 4, -3)
  })
})
